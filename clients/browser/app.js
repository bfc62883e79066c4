// The browser client: microphone -> socket -> page and loudspeaker, in the native dialect (voicepipe.v1).
// Whatever a person, a model or a server said reaches the page through textContent only.

const PROTOCOL = "voicepipe.v1";
const MAX_RATE_HZ = 48000;
const MAX_UNSENT_BYTES = 64 * 1024; // beyond it sound is left out; the offsets tell the server so
const TURNS_SHOWN = 100;
const STAGES = ["endpoint", "asr", "llm", "tts", "send"];

const MICROPHONE = {
  NotAllowedError: "This page may not use the microphone. Allow it in the address bar or in the browser's settings.",
  NotFoundError: "No microphone was found. Plug one in and try again.",
  NotReadableError: "The microphone cannot be opened: another program may be using it.",
};
const INSECURE =
  "Browsers give the microphone only to pages on https or on localhost. Open this page there, or set up TLS.";
const REFUSALS = {
  capacity: "Every place on this server is taken.",
  burst: "The server could not answer one more person in time.",
  utilisation: "The server is busy with other conversations.",
  memory: "The server has no memory for one more conversation.",
  "loop-lag": "The server is too busy at the moment.",
  overload: "The server is too busy at the moment.",
  limit: "The server is busy with other conversations.",
  rate: "Too many people have just come in.",
  "token-sessions": "This token has all the conversations that it may have.",
  "token-rate": "This token has begun too many conversations within a minute.",
  "address-sessions": "This address has all the conversations that it may have.",
  "address-rate": "This address has begun too many conversations within a minute.",
  warming_up: "The server is still loading its models.",
  draining: "The server is shutting down.",
};

const element = (id) => document.getElementById(id);

/** Something that a person can be told. */
class Fault extends Error {}

// --- one session: everything from Start to Stop ---------------------------------------------------

class Session {
  constructor({ microphone = true, say = null }, token) {
    this.microphone = microphone;
    this.say = say; // typed before there was a session
    this.token = token;
    this.over = false;
    this.ready = null; // its session.ready
    this.refused = null;
    this.waiting = false; // in the waiting room, where nobody listens yet
    this.error = null; // the server's last word on what is wrong
    this.draining = false;
    this.received = { epoch: 0, samples: 0 };
  }

  async open() {
    this.context = newContext();
    if (this.microphone) this.stream = await openMicrophone();
    const capture = this.microphone && (await this.node("capture"));
    this.player = await this.node("playback"); // undefined on an insecure page: replies are then read, not heard
    if (this.over) return this.release();
    await this.context.resume();
    this.connect(capture);
  }

  async node(name) {
    if (!this.context.audioWorklet) return undefined;
    try {
      await this.context.audioWorklet.addModule(`${name}-worklet.js`);
    } catch (error) {
      throw new Fault((await whyNotReady()) ?? error.message);
    }
    const mono = { channelCount: 1, channelCountMode: "explicit", outputChannelCount: [1] };
    const node = new AudioWorkletNode(this.context, name, mono);
    node.onprocessorerror = () => notify(`The audio thread failed (${name}).`);
    node.connect(this.context.destination); // the capture's output is silence, but what leads nowhere is not run
    return node;
  }

  connect(capture) {
    const url = new URL("v1/voice", location.href);
    url.protocol = url.protocol.replace("http", "ws");
    url.search = location.search; // budget_ms, route
    try {
      this.socket = new WebSocket(url, this.token ? [PROTOCOL, this.token] : [PROTOCOL]);
    } catch {
      throw new Fault("The token holds characters that a browser cannot send.");
    }
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      const rate = (counters.rate_hz = this.context.sampleRate);
      this.send({ type: "session.start", protocol: PROTOCOL, audio: { rate }, output_rate: rate });
      if (capture) this.listen(capture);
    };
    this.socket.onmessage = ({ data }) => (typeof data === "string" ? this.onText(data) : this.onAudio(data));
    this.socket.onclose = (event) => onClosed(this, event);
    if (this.player) this.player.port.onmessage = ({ data }) => this.onHeard(data);
  }

  listen(capture) {
    capture.port.onmessage = ({ data: { frame, peak } }) => {
      if (this.over || this.waiting || this.socket.bufferedAmount > MAX_UNSENT_BYTES) return;
      this.socket.send(frame);
      counters.sent_frames += 1;
      element("talk").style.setProperty("--level", Math.min(1, 3 * peak).toFixed(2));
    };
    this.context.createMediaStreamSource(this.stream).connect(capture);
    this.stream.getAudioTracks()[0].onended = () => notify("The microphone has gone away.");
  }

  wait(position) {
    this.waiting = true;
    notify(`Every place is taken. You are number ${position} in the line.`);
  }

  begin(ready) {
    if (this.waiting) quiet();
    [this.waiting, this.ready] = [false, ready];
  }

  onText(text) {
    const message = JSON.parse(text);
    const { type, epoch } = message;
    if (type === "session.ready") this.begin(message);
    else if (type === "refused") this.refused = message;
    else if (type === "waiting") this.wait(message.position);
    else if (type === "error") this.error = message.message;
    else if (type === "turn.committed" || type === "turn.reopened") this.play({ oldest: epoch });
    else if (type === "reply.interrupted") this.play({ oldest: epoch + 1 });
    else if (type === "reply.done") this.play({ total: message.samples, epoch });
    else if (type === "reply.text") message.offset_samples ??= this.received.epoch === epoch ? this.received.samples : 0;
    onMessage(this, message);
  }

  onAudio(frame) {
    const header = new DataView(frame);
    this.received = { epoch: header.getUint32(0), samples: header.getUint32(4) + (frame.byteLength - 8) / 2 };
    this.play(frame, [frame]);
  }

  play(message, transfer = []) {
    this.player?.port.postMessage(message, transfer);
  }

  onHeard({ epoch, heard, ...seen }) {
    if (this.over) return;
    this.send({ type: "playback", epoch, played_samples: heard });
    this.play({ latency: this.context.outputLatency || this.context.baseLatency || 0 });
    Object.assign(counters, seen, { reports: counters.reports + 1 });
    onHeard(epoch, heard);
  }

  send(message) {
    this.socket.send(JSON.stringify(message));
  }

  end() {
    this.over = true;
    if (this.socket?.readyState === WebSocket.OPEN) this.send({ type: "session.end" });
    this.release();
  }

  release() {
    this.over = true;
    this.socket?.close();
    this.stream?.getTracks().forEach((track) => track.stop());
    if (this.context?.state !== "closed") this.context?.close();
  }
}

/** At the device's own rate, where the wire can carry it. */
function newContext() {
  const context = new AudioContext({ latencyHint: "interactive" });
  if (context.sampleRate <= MAX_RATE_HZ) return context;
  context.close();
  return new AudioContext({ latencyHint: "interactive", sampleRate: MAX_RATE_HZ });
}

async function openMicrophone() {
  if (!window.isSecureContext || !navigator.mediaDevices) throw new Fault(INSECURE);
  const audio = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };
  try {
    return await navigator.mediaDevices.getUserMedia({ audio });
  } catch (error) {
    throw new Fault(MICROPHONE[error.name] ?? `The microphone cannot be opened: ${error.message}`);
  }
}

// --- the page -------------------------------------------------------------------------------------

let session = null; // the present one, or the last
let turns = new Map(); // of this session: number -> what is on the page of it
let unheard = []; // reply texts whose sound has not been reached: {turn, epoch, offset, text}
let countdown = 0;

/** What has happened so far, for tests and for the curious. */
const counters = { sent_frames: 0, reports: 0, rate_hz: 0, peak: 0, played: 0, dropped: 0, underruns: 0 };
window.voicepipe = counters;

async function start(wish) {
  quiet();
  [turns, unheard] = [new Map(), []];
  const mine = (session = new Session(wish, element("token").value.trim()));
  show("connecting", "Connecting");
  try {
    await mine.open();
  } catch (error) {
    if (mine.over) return; // stopped while it was opened
    mine.release();
    finish(error instanceof Fault ? error.message : `This did not work: ${error.message}`);
  }
}

/** Back to rest; with a notice, one may try again. */
function finish(text = null, retryMs = null) {
  show("idle", "Off");
  element("talk").style.removeProperty("--level");
  if (text !== null) notify(text, { retry: true, retryMs });
}

function show(state, status = session.microphone ? "Listening" : "Connected, without a microphone") {
  document.body.dataset.state = state;
  element("status").textContent = status;
  element("talk").textContent = state === "idle" ? "Start" : "Stop";
}

function notify(text, { retry = false, retryMs = null } = {}) {
  quiet();
  element("notice-text").textContent = text;
  element("retry").hidden = !retry;
  element("notice").hidden = false;
  if (retryMs === null) return;
  const due = performance.now() + retryMs;
  const tick = () => {
    const left = Math.max(0, Math.ceil((due - performance.now()) / 1000));
    element("countdown").textContent = left ? `Try again in ${left} s.` : "You can try again now.";
    if (!left) clearInterval(countdown);
  };
  countdown = setInterval(tick, 250);
  tick();
}

function quiet() {
  clearInterval(countdown);
  element("countdown").textContent = "";
  element("notice").hidden = true;
}

/** Read out by screen readers; on the page it stands already. */
function announce(text) {
  add(element("announcer"), "p", { textContent: text });
  if (element("announcer").childElementCount > 8) element("announcer").firstElementChild.remove();
}

async function onClosed(of, event) {
  if (of.over) return;
  of.release();
  const text = await whyClosed(of, event);
  if (session === of) finish(text, of.refused?.retry_after_ms || null);
}

async function whyClosed({ refused, ready, error }, { code, reason }) {
  if (refused && code === 1008) return notLetIn();
  if (refused) return REFUSALS[refused.reason] ?? `Refused: ${refused.reason}.`;
  if (!ready && code === 1006) return (await whyNotReady()) ?? notLetIn();
  if (code === 1012 || code === 1001) return "The server has shut down, or restarts.";
  return error ?? `The connection was lost (${code}${reason && `: ${reason}`}).`;
}

/** A browser is not told why a socket did not open: ask the server how it is. Null where it is well. */
async function whyNotReady() {
  try {
    const { ready, reason } = await (await fetch("readyz")).json();
    return ready ? null : (REFUSALS[reason] ?? `The server is not ready: ${reason}.`);
  } catch {
    return `${location.host} does not answer. Is the server running?`;
  }
}

function notLetIn() {
  element("access").open = true;
  return "The server did not let this page in: it may want a token, or not expect pages from this address.";
}

// --- what the server says -------------------------------------------------------------------------

function onMessage(of, message) {
  const turn = message.turn && turnOf(message.turn);
  switch (message.type) {
    case "session.ready":
      return onReady(of, message);
    case "waiting":
      return show("connecting", `Waiting for a place: number ${message.position}`);
    case "speech.started":
      return show("live", "Hearing you");
    case "transcript.partial":
      return hear(turn, message.stable, message.tentative);
    case "transcript.final":
      hear(turn, message.text, "");
      return announce(`You: ${message.text}`);
    case "turn.committed":
      if (!of.draining) quiet();
      return show("live", "Answering");
    case "turn.reopened":
      unheard = [];
      turn.reply.textContent = "";
      return show("live", "Hearing you");
    case "reply.text":
      unheard.push({ turn, epoch: message.epoch, offset: message.offset_samples, text: message.text });
      return of.player || onHeard(message.epoch, Infinity);
    case "reply.interrupted":
      unheard = [];
      return turn.item.classList.add("cut");
    case "turn.ended":
      return onEnded(of, turn, message);
    case "error":
      return notify(message.message);
    case "draining":
      of.draining = true;
      return notify(`The server shuts down in ${Math.ceil(message.deadline_ms / 1000)} s; this turn can still end.`);
  }
}

function onReady(of, { budget_ms, achievable_ms }) {
  const needed = achievable_ms === null ? "" : `; this server needs about ${ms(achievable_ms)} at rest`;
  element("facts").textContent = `${ms(budget_ms)} from your last word to the answer${needed}`;
  show("live");
  if (of.say) of.send({ type: "input.text", text: of.say });
  of.say = null;
}

/** The reply of `epoch` has sounded up to `heard` samples: show the words that have begun. */
function onHeard(epoch, heard) {
  const begun = unheard.filter((text) => text.epoch === epoch && text.offset < heard);
  if (begun.length) show("live", "Speaking");
  for (const { turn, text } of begun) {
    turn.reply.textContent += text;
    announce(text);
  }
  unheard = unheard.filter((text) => !begun.includes(text));
}

function onEnded(of, turn, message) {
  for (const text of unheard.filter((text) => text.turn === turn)) onHeard(text.epoch, Infinity);
  if (message.verdict === "empty") turn.item.classList.add("empty");
  report(turn, message, of.ready.budget_ms);
  show("live");
}

function turnOf(number) {
  if (!turns.has(number)) {
    const item = element("turn").content.cloneNode(true).firstElementChild;
    const part = (name) => item.querySelector(`.${name}`);
    turns.set(number, { item, stable: part("stable"), tentative: part("tentative"), reply: part("reply"), part });
    element("turns").append(item);
    if (element("turns").childElementCount > TURNS_SHOWN) element("turns").firstElementChild.remove();
    element("hint").hidden = true;
  }
  return turns.get(number);
}

function hear(turn, stable, tentative) {
  turn.stable.textContent = stable;
  turn.tentative.textContent = stable && tentative ? ` ${tentative}` : tentative;
}

const REASONS = {
  "late-commit": "not answered: what you had said was certain too late",
  "no-content": "not answered: nothing was ready in time",
};

/** Verdict, felt estimate against the budget, and the stages as one bar: waiting light, work dark. */
function report({ item, part }, { verdict, reason, felt_estimate_ms: felt, stages, speculation, blame }, budgetMs) {
  item.dataset.verdict = verdict;
  part("verdict").textContent = verdict;
  part("felt").textContent = felt === null ? (REASONS[reason] ?? "no answer was heard") : `about ${ms(Math.ceil(felt))} of ${ms(budgetMs)}`;
  const spans = STAGES.map((name) => ({ name, wait: stages[name].wait_ms, work: stages[name].service_ms }));
  const total = spans.reduce((sum, { wait, work }) => sum + wait + work, 0);
  const scale = 100 / (1.02 * Math.max(total, budgetMs));
  for (const { name, wait, work } of spans.filter(({ wait, work }) => wait + work > 0)) {
    add(part("bar"), "span", { className: "wait" }, name).style.width = `${scale * wait}%`;
    add(part("bar"), "span", { className: "work" }, name).style.width = `${scale * work}%`;
    const title = `${ms(wait)} waiting, ${ms(work)} at work`;
    add(part("stages"), "li", { textContent: `${name} ${ms(wait + work)}`, title }, name);
  }
  const missed = blame && `blamed on ${blame.stage} (${blame.kind}), ${ms(blame.ms)} over`;
  const ahead = speculation.saved_ms >= 1 && `${ms(speculation.saved_ms)} of work before the end of speech`;
  for (const note of [missed, ahead].filter(Boolean)) add(part("stages"), "li", { textContent: note });
  add(part("bar"), "i", { title: "budget" }).style.left = `${scale * budgetMs}%`;
  part("bar").setAttribute("aria-label", `${ms(total)} in stages, budget ${ms(budgetMs)}`);
  part("bar").hidden = total === 0;
  part("ledger").hidden = false;
}

function add(parent, tag, properties, stage = "") {
  const node = Object.assign(document.createElement(tag), properties);
  node.dataset.stage = stage;
  parent.append(node);
  return node;
}

const ms = (value) => `${Math.round(value)} ms`;

// --- hands ----------------------------------------------------------------------------------------

element("talk").onclick = () => {
  if (document.body.dataset.state === "idle") return start({});
  session.end();
  finish();
};
element("retry").onclick = () => {
  element("talk").focus(); // the button that had the focus goes away
  start(session);
};
element("type").onsubmit = (event) => {
  event.preventDefault();
  const { state } = document.body.dataset;
  const text = element("text").value.trim();
  if (!text || state === "connecting") return; // the words stay in the field
  if (state === "live") session.send({ type: "input.text", text });
  else start({ microphone: false, say: text });
  element("text").value = "";
};
