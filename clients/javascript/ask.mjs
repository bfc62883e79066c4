// node ask.mjs "What is the capital of France?" [URL]
const [question, url = "ws://127.0.0.1:8765/v1/voice"] = process.argv.slice(2);
const socket = new WebSocket(url, ["voicepipe.v1", process.env.VOICEPIPE_TOKEN].filter(Boolean));
const send = (message) => socket.send(JSON.stringify(message));
let reply = "";
socket.onopen = () => send({ type: "session.start", protocol: "voicepipe.v1", audio: { rate: 16000 } });
socket.onmessage = ({ data }) => {
  const message = typeof data === "string" ? JSON.parse(data) : { type: "sound" };
  if (message.type === "session.ready") send({ type: "input.text", text: question });
  if (message.type === "reply.text") reply += message.text;
  if (["turn.ended", "refused", "error"].includes(message.type)) console.log(reply, message), socket.close();
};
