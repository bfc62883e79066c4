// A conversation from Start to Stop, over as many connections as it takes: the states that the page can be in.
//
//   off -> opening -> connecting -> live -> off                   opening: microphone and loudspeaker
//                     connecting -> waiting -> live               waiting: a place in the server's waiting room
//                     connecting -> refused -> connecting         refused: come back when the time is over
//                     live -> lost -> connecting                  lost: tries again by itself, ever more slowly, and
//                                                                 goes on with the conversation where it is still kept
//                     any -> fault                                fault: a person has to do something first
//
// Sound stays open from the first connection to Stop, so that coming back asks nobody for anything.

import { aboutSound, badToken, notOpened, refusal, turnedAway } from "./explain.js";
import { Sound } from "./sound.js";
import { PROTOCOL, TokenFault, Wire, voiceUrl } from "./wire.js";

const MAX_AGAIN_S = 30;
const RESTART_S = 5; // a server that goes away has a successor by then
const SPREAD = [0.75, 1.25]; // those who lost a server together do not come back together
const WARMING_MS = 2000;
const BUSY_MS = 5000; // where a server that is full did not say for how long
const LASTING = { protocol: [1002, 1003, 1007, 1009], own: 4000 }; // close codes that trying again does not change

export class Talk {
  /**
   * hooks: state(state), message(message), heard(epoch, samples), audible(epoch, sinceCommit_s), level(peak),
   * note(text), memory(): the lines that a new session is told of the conversation so far.
   *
   * A state is {name, ...}: `waiting` has position; `refused` and `lost` have title, due (performance.now()) and
   * willRetry; `fault` has kind, title, help.
   */
  constructor(settings, hooks) {
    this.settings = settings;
    this.hooks = hooks;
    this.state = { name: "off" };
    this.timer = 0;
    this.mayHear = true; // muted, or push-to-talk and not pushed: false
    this.goesOn = false; // somebody was talking, or asked to wait: refused, it tries again by itself
    this.token = null; // by which the conversation of a connection that was lost can be had back, once
    this.isBack = false; // there was a connection before this one, and it was lost
    this.cuts = []; // of replies that were stopped: {epoch, ms} from the message to the silence
    this.forget();
  }

  forget() {
    this.ready = null;
    this.refused = null;
    this.error = null;
    this.received = { epoch: 0, samples: 0 };
    this.committed = { epoch: 0, at: 0 };
    this.dropped = { oldest: 0, at: 0 };
    this.replying = 0; // epoch of the reply that is made or played; 0: none
  }

  // --- beginning and end

  /** `microphone`: whether to listen; `say`: what was typed before there was a session. */
  async start({ microphone = true, say = null }) {
    this.stop();
    const wish = (this.wish = { microphone, say });
    this.tries = 0;
    this.enter({ name: "opening" });
    const sound = (this.sound = new Sound(this.soundHooks()));
    this.mayHear = !this.settings.isManual;
    try {
      await sound.open({ microphone, ...this.settings.devices, isOpen: this.mayHear });
    } catch (error) {
      if (this.wish === wish) await this.onSoundFault(error);
      return;
    }
    if (this.wish === wish) this.connect();
  }

  stop() {
    this.wish = null;
    this.token = null;
    this.isBack = false;
    this.end();
    this.sound?.close();
    this.sound = null;
    this.enter({ name: "off" });
  }

  async end() {
    clearTimeout(this.timer);
    const wire = this.wire;
    this.wire = null;
    await wire?.close();
  }

  enter(state) {
    this.state = state;
    this.hooks.state(state);
  }

  fail(fault) {
    this.stop();
    this.enter({ name: "fault", ...fault });
  }

  async onSoundFault(error) {
    if (error.name !== "NoWorklet") return this.fail(aboutSound(error));
    const why = await askWhy();
    this.fail({
      kind: "fault",
      title: "The sound part of this page did not load.",
      help: why?.title ?? error.message,
    });
  }

  soundHooks() {
    return {
      frame: (frame, peak, isClosed) => this.onFrame(frame, peak, isClosed),
      heard: (epoch, samples) => this.onHeard(epoch, samples),
      audible: (epoch, frame) => this.onAudible(epoch, frame),
      cut: (epoch, frame) => this.onCut(epoch, frame),
      lost: () => this.hooks.note("The microphone has gone away. Choose another one in the settings."),
      stalled: (isStalled) => this.hooks.stalled(isStalled),
      failed: (name) => this.hooks.note(`The audio thread failed (${name}). Stop and start again.`),
    };
  }

  // --- one connection

  /** Anew, where there is one already: its place is given back first, and waited for if somebody else takes it. */
  async connect() {
    const { wish } = this;
    if (this.ready !== null && this.wire !== null) this.token = null; // ended in order below, and then not kept
    this.goesOn = this.ready !== null || this.tries > 0 || this.state.willRetry === true;
    const ending = this.end();
    this.forget();
    this.sound.beginAnew();
    this.enter({ name: "connecting" });
    await ending;
    if (this.wish !== wish || this.wire) return; // stopped, or connected again, meanwhile
    try {
      this.wire = new Wire(voiceUrl(this.settings.query), this.settings.token, {
        opened: () => this.onOpened(),
        message: (message) => this.onMessage(message),
        audio: (audio) => this.onAudio(audio),
        closed: (closing) => this.onClosed(closing),
      });
    } catch (error) {
      if (!(error instanceof TokenFault)) throw error;
      this.fail(badToken());
    }
  }

  /** The server's own memory of the conversation is better than the page's: it knows what was heard. */
  onOpened() {
    this.begin(this.token ?? true);
    if (this.token === null) this.remind();
  }

  begin(resume) {
    const rate = this.sound.rate_hz;
    this.send({
      type: "session.start",
      protocol: PROTOCOL,
      audio: { rate },
      output_rate: rate,
      resume,
      ...this.settings.start,
    });
  }

  remind() {
    for (const { role, text } of this.hooks.memory()) this.send({ type: "history.add", role, text });
  }

  send(message) {
    this.wire?.send(message);
  }

  onMessage(message) {
    switch (message.type) {
      case "session.ready":
        this.ready = message;
        this.tries = 0;
        this.token = message.resume ?? null;
        this.enter({ name: "live", isBack: this.isBack });
        this.isBack = false;
        if (this.wish.say) this.send({ type: "input.text", text: this.wish.say });
        this.wish.say = null;
        break;
      case "waiting":
        return this.enter({ name: "waiting", position: message.position });
      case "refused":
        this.refused = message;
        return;
      case "error":
        if (message.code === "resume_unknown") {
          // Too late, or another server: it begins afresh, on this connection, with what the page remembers.
          this.token = null;
          this.begin(true);
          return this.remind();
        }
        this.error = message;
        break;
      default:
        this.onTurn(message);
    }
    this.hooks.message(message);
  }

  /** What a message about a turn means for the sound. */
  onTurn(message) {
    const { type, epoch } = message;
    switch (type) {
      case "turn.committed":
        this.committed = { epoch, at: this.now() };
        this.replying = epoch;
        this.sound.tellLatency();
        return this.dropBelow(epoch);
      case "turn.reopened":
        this.replying = 0;
        return this.dropBelow(epoch);
      case "reply.interrupted":
        this.replying = 0;
        return this.dropBelow(epoch + 1);
      case "reply.acknowledged":
        return this.sound.contentFrom(epoch, message.samples);
      case "reply.done":
        return this.sound.finish(epoch, message.samples);
      case "reply.text": // its sound follows what has come of the reply
        message.offset_samples ??= this.received.epoch === epoch ? this.received.samples : 0;
        return;
      case "turn.ended":
        this.replying = 0;
    }
  }

  onAudio({ epoch, offset, frame }) {
    this.received = { epoch, samples: offset + (frame.byteLength - 8) / 2 };
    this.sound.play(frame);
  }

  dropBelow(oldest) {
    this.dropped = { oldest, at: this.now() };
    this.sound.dropBelow(oldest);
  }

  onHeard(epoch, samples) {
    this.send({ type: "playback", epoch, played_samples: samples });
    this.hooks.heard(epoch, samples);
  }

  /** The reply's first sound left this page: how long after the commit was told. */
  onAudible(epoch, frame) {
    if (epoch === this.committed.epoch) this.hooks.audible(epoch, frame / this.sound.rate_hz - this.committed.at);
  }

  onCut(epoch, frame) {
    if (epoch >= this.dropped.oldest) return;
    this.cuts = [...this.cuts, { epoch, ms: 1000 * (frame / this.sound.rate_hz - this.dropped.at) }].slice(-20);
  }

  /** The sound's clock, s: what worklets count in. */
  now() {
    return this.sound.context.currentTime;
  }

  // --- what the person does

  onFrame(frame, peak, isClosed) {
    if (!this.ready && this.state.name !== "connecting") return; // in the waiting room nobody listens
    if (!this.wire?.sendFrame(frame)) return;
    this.hooks.level(peak);
    if (isClosed && this.settings.isManual) this.send({ type: "input.commit" });
  }

  /** Muted, or the push-to-talk button released: false. */
  hear(mayHear) {
    if (mayHear === this.mayHear) return;
    this.mayHear = mayHear;
    if (mayHear && this.settings.isManual) this.hush();
    this.sound?.openMicrophone(mayHear);
  }

  /** Stop the reply. */
  hush() {
    if (!this.replying) return;
    this.send({ type: "reply.cancel" });
    this.dropBelow(this.replying + 1);
  }

  say(text) {
    this.send({ type: "input.text", text });
  }

  // --- when a connection ends

  async onClosed(closing) {
    const wire = this.wire;
    const next = await this.afterwards(closing);
    if (this.wire !== wire) return; // stopped, or begun anew, meanwhile
    this.wire = null;
    if (next.kind) return this.fail(next);
    this.sound.beginAnew();
    this.pause(next);
  }

  /** A fault {kind, ...}, or a pause {name, title, wait_ms, willRetry}. */
  async afterwards({ code, reason }) {
    const hadSession = this.ready !== null || this.goesOn;
    if (this.refused) {
      if (code === 1008) return turnedAway();
      const { reason, retry_after_ms } = this.refused;
      return { name: "refused", title: refusal(reason), wait_ms: retry_after_ms, willRetry: hadSession };
    }
    if (this.error?.code === "engine_busy")
      return { name: "refused", title: refusal("engine_busy"), wait_ms: BUSY_MS, willRetry: hadSession };
    if (this.error && isLasting(code))
      return { kind: "fault", title: "The server ended this conversation.", help: `${this.error.message}.` };
    if (!this.ready && code === 1006) {
      const why = await askWhy();
      if (why === null) return this.goesOn ? this.lost("The connection was lost.") : notOpened();
      if (why.reason) return { name: "refused", title: why.title, wait_ms: WARMING_MS, willRetry: true };
      return this.lost(why.title);
    }
    if (code === 1012 || code === 1001) return this.lost("The server has shut down, or restarts.", RESTART_S);
    return this.lost(`The connection was lost${reason ? `: ${reason}` : code === 1006 ? "" : ` (${code})`}.`);
  }

  lost(title, least_s = 0) {
    this.isBack = true;
    const delay_s = Math.max(least_s, Math.min(MAX_AGAIN_S, 2 ** this.tries)) * spread();
    this.tries += 1;
    return { name: "lost", title, wait_ms: 1000 * delay_s, willRetry: true };
  }

  pause({ name, title, wait_ms, willRetry }) {
    this.enter({ name, title, due: performance.now() + wait_ms, willRetry });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.onDue(), wait_ms);
  }

  onDue() {
    if (this.state.willRetry) this.connect();
    else this.enter({ ...this.state, due: performance.now() });
  }

  /** Of a refusal: connect by itself as soon as the time is over. */
  waitAndConnect() {
    if (performance.now() >= this.state.due) this.connect();
    else this.enter({ ...this.state, willRetry: true });
  }
}

const spread = () => SPREAD[0] + (SPREAD[1] - SPREAD[0]) * Math.random();

const isLasting = (code) =>
  code === 1000 || code === 1008 || code >= LASTING.own || LASTING.protocol.includes(code);

/** A browser is not told why a socket did not open: ask the server how it is. Null where it is well. */
async function askWhy() {
  try {
    const { ready, reason } = await (await fetch("readyz", { cache: "no-store" })).json();
    return ready ? null : { title: refusal(reason), reason };
  } catch {
    return { title: `${location.host} does not answer. Is the server running?` };
  }
}
