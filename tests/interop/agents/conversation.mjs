// The realtime client of @openai/agents, unchanged but for the URL: two spoken turns, calls of a function, an
// interruption. node conversation.mjs URL; the token is in VOICEPIPE_TOKEN. Prints what it saw as one JSON object.

import { RealtimeAgent, RealtimeSession, tool } from "@openai/agents/realtime";
import { z } from "zod";

const RATE_HZ = 24_000;
const PACKET_MS = 20;
const PACKET = (RATE_HZ * PACKET_MS) / 1000;

const saw = { called: [], errors: [], interruptions: 0, audio_ms: 0, late_audio_ms: 0, history: [] };
let interrupted = "";

const weather = tool({
  name: "weather",
  description: "Tells the weather of a place.",
  parameters: z.object({ place: z.string() }),
  execute: async ({ place }) => {
    saw.called.push(place);
    return "rain";
  },
});
const agent = new RealtimeAgent({ name: "Weather", instructions: "Be brief.", tools: [weather] });
const session = new RealtimeSession(agent, { transport: "websocket", model: "gpt-realtime" });

// What it hears
let heardMs = 0;
let current = "";
session.on("audio", ({ data, responseId }) => {
  const ms = (1000 * data.byteLength) / 2 / RATE_HZ;
  saw.audio_ms += ms;
  heardMs = responseId === current ? heardMs + ms : ms;
  current = responseId;
  if (responseId === interrupted) saw.late_audio_ms += ms;
});
session.on("audio_interrupted", () => {
  saw.interruptions += 1;
  interrupted = current;
});
session.on("error", ({ error }) => saw.errors.push(error));
session.on("history_updated", (history) => (saw.history = history));

// What it says: a tone while somebody speaks, else silence
let speakingUntil = 0;
const speak = (seconds) => (speakingUntil = Date.now() + 1000 * seconds);
const tone = Int16Array.from({ length: PACKET }, (_, i) => 6500 * Math.sin(0.2 * i));
const silence = new Int16Array(PACKET);
const began = Date.now();
let sent = 0;
const microphone = setInterval(() => {
  for (; sent * PACKET_MS <= Date.now() - began; sent += 1) {
    session.sendAudio((Date.now() < speakingUntil ? tone : silence).buffer);
  }
}, PACKET_MS / 2);

const until = async (what, isSo) => {
  const limit = Date.now() + 20_000;
  while (!isSo()) {
    if (Date.now() > limit) throw new Error(`${what} did not happen: ${JSON.stringify(saw)}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
};
const done = { count: 0 };
session.transport.on("response.done", () => (done.count += 1));

await session.connect({ url: process.argv[2], apiKey: process.env.VOICEPIPE_TOKEN });
speak(0.8);
await until("an answer to the first question", () => done.count === 1 && heardMs > 1200);
speak(0.8); // over the answer
await until("the interruption", () => saw.interruptions === 1);
await until("an answer to the second question", () => done.count === 4);
clearInterval(microphone);
session.close();
console.log(JSON.stringify(saw));
