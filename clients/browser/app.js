// The page: what it shows in each state, and what hands do to it. Whatever a person, a model or a server said
// reaches it as text only.

import { Notice } from "./notice.js";
import { Settings } from "./settings.js";
import { Talk } from "./talk.js";
import { Times } from "./times.js";
import { Turns } from "./turns.js";
import { drawBar, felt, ms } from "./waterfall.js";

const element = (id) => document.getElementById(id);
const LINES_READ_OUT = 8;
const FRAMES_SHOWN = 5;
const NAMES = {
  off: "Off",
  opening: "Opening the microphone",
  connecting: "Connecting",
  refused: "Not connected",
  lost: "Not connected",
};

const notice = new Notice(element("notice"));
const settings = new Settings(element("settings"), element("choices"), onChanged);
const talk = new Talk(settings, {
  state: onState,
  message: onMessage,
  heard: (epoch, samples) => turns.heard(epoch, samples) && act("speaking"),
  audible: onAudible,
  level: onLevel,
  note: (title) => notice.show({ kind: "note", title, secondary: dismiss }),
  stalled: onStalled,
  memory: () => turns.memory(),
});
const turns = new Turns(
  { list: element("turns"), template: element("turn"), hint: element("hint") },
  { announce, chosen: showTimes },
);
const times = new Times((name) => document.querySelector(`[data-part="${name}"]`));
const dismiss = { text: "Dismiss", act: () => notice.hide() };

let levels = [];
let muted = false;
let pushed = false;

/** What has happened so far, for tests and for the curious. */
window.voicepipe = {
  talk,
  settings,
  get counters() {
    return { ...talk.sound?.counters, rate_hz: talk.sound?.rate_hz, cuts: talk.cuts };
  },
};

// --- states

function onState(state) {
  document.body.dataset.state = state.name;
  const running = !["off", "fault"].includes(state.name);
  element("talk").textContent = running ? "Stop" : "Start";
  if (state.name !== "live") {
    element("talk").style.removeProperty("--level");
    document.body.dataset.activity = "";
    turns.abandon();
    setStatus(
      state.name === "waiting"
        ? `Waiting for a place: number ${state.position} in the line`
        : (NAMES[state.name] ?? "Off"),
    );
  }
  showNotice(state);
  if (state.name === "live") onLive(state.isBack);
  showControls();
}

function onLive(isBack) {
  const { budget_ms, achievable_ms } = talk.ready;
  const needed = achievable_ms === null ? "" : `; this server needs about ${ms(achievable_ms)} at rest`;
  element("facts").textContent = `${ms(budget_ms)} from your last word to the answer${needed}`;
  applyOpenness();
  act("listening");
  if (!isBack) return;
  const title = talk.ready.resumed
    ? "Connected again: the conversation goes on."
    : "Connected again: the server was told what this page remembers.";
  notice.show({ kind: "back", title, secondary: dismiss });
}

function showNotice(state) {
  const stop = { text: "Stop", act: () => talk.stop() };
  switch (state.name) {
    case "waiting":
      return notice.show({
        kind: "waiting",
        title: `Every place is taken. You are number ${state.position} in the line.`,
        help: "It is your turn as soon as somebody leaves. Nobody listens before.",
        secondary: stop,
      });
    case "lost":
      return notice.show({
        ...state,
        kind: "lost",
        help: "What was said stays; the conversation goes on from there.",
        counted: (left_s) => (left_s ? `Trying again in ${left_s} s.` : "Trying again."),
        primary: { text: "Try now", act: () => talk.connect() },
        secondary: stop,
      });
    case "refused":
      return showRefusal(state, stop);
    case "fault":
      return showFault(state);
    case "connecting": // the notice before it stays until it is known whether this helped
      return talk.tries ? undefined : notice.hide();
    default:
      return notice.hide();
  }
}

/** The button waits: for the person, who then has to do nothing, or until it makes sense to press it. */
function showRefusal(state, stop) {
  const waits = state.willRetry;
  notice.show({
    ...state,
    kind: "refused",
    counted: (left_s) => {
      if (left_s) return waits ? `Connecting in ${left_s} s.` : `There may be room in ${left_s} s.`;
      notice.part("primary").textContent = "Try again";
      return waits ? "Connecting." : "You can try again now.";
    },
    primary: waits
      ? { text: "Waiting", act: () => talk.connect(), waits }
      : { text: "Wait and connect", act: () => talk.waitAndConnect() },
    secondary: stop,
  });
}

function showFault({ kind, title, help }) {
  const again = { text: "Try again", act: () => start() };
  const instead = {
    unauthorized: { text: "Enter a token", act: () => settings.open("token") },
    insecure: { text: "Type instead", act: () => element("text").focus() }, // trying again would change nothing
  };
  notice.show({ kind, title, help, primary: instead[kind] ?? again, secondary: dismiss });
}

function onStalled(isStalled) {
  if (isStalled && document.body.dataset.state === "live")
    notice.show({
      kind: "stalled",
      title: "The browser has stopped this page's sound.",
      primary: { text: "Go on", act: () => talk.sound.resume() },
    });
  else if (element("notice").dataset.kind === "stalled") notice.hide();
}

// --- what the server says

function onMessage(message) {
  const { type, turn, epoch } = message;
  if (element("notice").dataset.kind === "back" && type !== "session.ready") notice.hide();
  switch (type) {
    case "speech.started":
      return act("hearing");
    case "transcript.partial":
      return turns.hear(turn, message.stable, message.tentative);
    case "transcript.final":
      return turns.final(turn, message.text);
    case "turn.committed":
      turns.committed(turn, epoch);
      return act("thinking");
    case "turn.reopened":
      turns.reopened(turn);
      return act("hearing");
    case "reply.acknowledged":
      return turns.acknowledged(turn);
    case "reply.text":
      turns.replyText(message);
      if (!talk.sound.hasOutput && turns.heard(epoch, Infinity)) act("speaking");
      return;
    case "reply.interrupted":
      return turns.interrupted(turn);
    case "turn.ended":
      return onEnded(turn, message);
    case "error":
      return notice.show({
        kind: "note",
        title: "The server reports an error.",
        help: message.message,
        secondary: dismiss,
      });
    case "draining":
      return onDraining(message.deadline_ms);
  }
}

function onEnded(turn, ended) {
  const record = turns.ended(turn, ended, talk.ready.budget_ms);
  const { felt_estimate_ms: felt_ms } = ended;
  record.part("verdict").textContent = ended.verdict;
  record.part("verdict").dataset.verdict = ended.verdict;
  record.part("felt").textContent = felt_ms === null ? "" : `${felt(felt_ms)} of ${ms(record.budget_ms)}`;
  drawBar(record.part("bar"), ended, record.budget_ms);
  record.part("times").hidden = false;
  times.add(record);
  act("listening");
}

/** Of each frame of 20 ms; five of them are shown as one, since painting takes its time from the sound. */
function onLevel(peak) {
  levels.push(peak);
  if (levels.length < FRAMES_SHOWN) return;
  const level = Math.min(1, 3 * Math.max(...levels)).toFixed(1);
  levels = [];
  if (element("talk").style.getPropertyValue("--level") !== level)
    element("talk").style.setProperty("--level", level);
}

function onAudible(epoch, since_s) {
  const record = turns.byEpoch(epoch);
  if (record) record.page_ms = 1000 * (since_s + talk.sound.latency_s);
}

function onDraining(deadline_ms) {
  notice.show({
    kind: "draining",
    title: "The server shuts down.",
    help: "An answer that is under way is still given. Then the page looks for the server again by itself.",
    due: performance.now() + deadline_ms,
    counted: (left_s) => (left_s ? `At most ${left_s} s are left.` : ""),
  });
}

// --- what is shown of it

function act(activity) {
  if (document.body.dataset.state !== "live") return;
  document.body.dataset.activity = activity;
  element("hush").hidden = !["thinking", "speaking"].includes(activity);
  setStatus(statusOf(activity));
}

function statusOf(activity) {
  if (activity === "speaking") return "Speaking";
  if (activity === "thinking") return "Answering";
  if (!talk.wish?.microphone) return "Connected, without a microphone";
  if (settings.isManual) return pushed ? "Listening while you hold" : "Hold the button, or the space bar, to speak";
  if (muted) return "Muted: nobody hears you";
  return activity === "hearing" ? "Hearing you" : "Listening";
}

function setStatus(text) {
  if (element("status").textContent !== text) element("status").textContent = text;
}

/** Read out by screen readers; on the page it stands already. */
function announce(text) {
  const line = document.createElement("p");
  line.textContent = text;
  element("announcer").append(line);
  if (element("announcer").childElementCount > LINES_READ_OUT) element("announcer").firstElementChild.remove();
}

function showTimes(record) {
  times.choose(record);
  element("times").open = true;
  element("times").querySelector("summary").focus();
}

function showControls() {
  const hears = document.body.dataset.state === "live" && talk.wish?.microphone;
  element("mute").hidden = !hears || settings.isManual;
  element("push").hidden = !hears || !settings.isManual;
  if (document.body.dataset.state !== "live") element("hush").hidden = true;
}

// --- hands

function start(wish = {}) {
  [muted, pushed] = [false, false];
  talk.start(wish);
}

/** Whether what the microphone hears goes out. */
function applyOpenness() {
  talk.hear(settings.isManual ? pushed : !muted);
  element("mute").setAttribute("aria-pressed", String(muted));
  element("push").setAttribute("aria-pressed", String(pushed));
  act(document.body.dataset.activity);
}

function push(isPushed) {
  if (pushed === isPushed || element("push").hidden) return;
  pushed = isPushed;
  applyOpenness();
}

function hush() {
  talk.hush();
  act("listening");
}

function onChanged(names, concernsSession) {
  const { input, output } = settings.devices;
  const report = ({ message, name }) =>
    notice.show({ kind: "note", title: "This device cannot be used.", help: message || name, secondary: dismiss });
  if (names.includes("input") && talk.sound?.stream) talk.sound.useInput(input).catch(report);
  if (names.includes("output") && talk.sound) talk.sound.useOutput(output).catch(report);
  if (!concernsSession) return;
  const { state } = document.body.dataset;
  if (state === "fault") return start();
  if (["live", "connecting", "waiting", "refused", "lost"].includes(state)) talk.connect();
}

element("talk").onclick = () => (["off", "fault"].includes(document.body.dataset.state) ? start() : talk.stop());
element("mute").onclick = () => {
  muted = !muted;
  applyOpenness();
};
element("hush").onclick = hush;
element("open-settings").onclick = () => settings.open();

const pushButton = element("push");
pushButton.onpointerdown = (event) => {
  pushButton.setPointerCapture(event.pointerId);
  push(true);
};
for (const name of ["pointerup", "pointercancel", "lostpointercapture"])
  pushButton.addEventListener(name, () => push(false));
pushButton.oncontextmenu = (event) => event.preventDefault(); // of a long touch
pushButton.onclick = ({ detail }) => {
  if (detail === 0) push(!pushed); // by something that cannot hold
};
window.addEventListener("blur", () => push(false));

const typesText = (target) => target.closest("input, select, textarea, dialog") !== null;
const takesSpace = (target) => typesText(target) || target.closest("button:not(#push), a, summary") !== null;
document.addEventListener("keydown", (event) => {
  if (event.key === " " && !pushButton.hidden && !takesSpace(event.target)) {
    event.preventDefault();
    push(true);
  } else if (event.key === "Escape" && !element("settings").open && !element("hush").hidden) hush();
});
document.addEventListener("keyup", (event) => {
  if (event.key !== " " || !pushed) return;
  event.preventDefault(); // or the button takes it for a click
  push(false);
});

element("type").onsubmit = (event) => {
  event.preventDefault();
  const { state } = document.body.dataset;
  const text = element("text").value.trim();
  if (!text || !["off", "fault", "live"].includes(state)) return; // the words stay in the field
  if (state === "live") talk.say(text);
  else start({ microphone: false, say: text });
  element("text").value = "";
};

const wide = matchMedia("(min-width: 60rem)");
const fold = () => (element("times").open = wide.matches);
wide.addEventListener("change", fold);
fold();
