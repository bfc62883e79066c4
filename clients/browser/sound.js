// Microphone and loudspeaker: one AudioContext with a worklet for each. Knows neither the page nor the network.

const MAX_RATE_HZ = 48000; // the most that the wire carries

/** Something about sound that a person has to be told: `name` is one of the names in explain.js. */
export class SoundFault extends Error {
  constructor(name, message = "") {
    super(message);
    this.name = name;
  }
}

export class Sound {
  /** hooks: frame(frame, peak, isClosed), heard(epoch, samples), audible(epoch, frame), cut(epoch, frame),
   *  lost() of the microphone, stalled(isStalled) of the sound device, failed(which worklet). */
  constructor(hooks) {
    this.hooks = hooks;
    this.counters = { peak: 0, played: 0, dropped: 0, underruns: 0, reports: 0, missed: 0 };
    this.clockBegan = null; // the context's frame at which the microphone's offsets are 0
    this.isClosed = false;
  }

  /** Without a `microphone` for those who type; `isOpen`: whether it is heard from the start. On an insecure page there are no worklets: replies are read, not
   *  heard. Throws SoundFault; then, and where `close` was called meanwhile, nothing stays open. */
  async open({ microphone, input, output, isOpen }) {
    try {
      this.context = newContext();
      this.context.onstatechange = () => this.hooks.stalled(!["running", "closed"].includes(this.context.state));
      if (microphone) this.stream = await openMicrophone(input);
      if (this.context.audioWorklet) await this.addWorklets(microphone, isOpen);
      if (this.isClosed) return this.release();
      if (output) await this.useOutput(output);
      if (microphone) this.listen();
      await this.context.resume();
    } catch (error) {
      this.close();
      throw error;
    }
  }

  get rate_hz() {
    return this.context.sampleRate;
  }

  /** Seconds between a sample that leaves a worklet and the ear, as far as the browser knows. */
  get latency_s() {
    return this.context.outputLatency || this.context.baseLatency || 0;
  }

  get hasOutput() {
    return this.player !== undefined;
  }

  async addWorklets(microphone, isOpen) {
    if (microphone) this.capture = await this.node("capture", { isOpen });
    this.player = await this.node("playback");
    this.player.port.onmessage = ({ data }) => this.onPlayer(data);
    if (!this.capture) return;
    this.capture.port.onmessage = ({ data }) => {
      if ("begun" in data) this.clockBegan = data.begun;
      else if ("missed" in data) this.counters.missed = data.missed;
      else this.hooks.frame(data.frame, data.peak, data.closed);
    };
  }

  async node(name, processorOptions = {}) {
    try {
      await this.context.audioWorklet.addModule(`${name}-worklet.js`);
    } catch (error) {
      throw new SoundFault("NoWorklet", error.message); // most likely the server is gone
    }
    const mono = { channelCount: 1, channelCountMode: "explicit", outputChannelCount: [1], processorOptions };
    const node = new AudioWorkletNode(this.context, name, mono);
    node.onprocessorerror = () => this.hooks.failed(name);
    node.connect(this.context.destination); // the capture's output is silence, but what leads nowhere is not run
    return node;
  }

  listen() {
    this.source?.disconnect();
    this.source = this.context.createMediaStreamSource(this.stream);
    if (this.capture) this.source.connect(this.capture);
    const [track] = this.stream.getAudioTracks();
    track.onended = () => this.isClosed || this.hooks.lost();
  }

  onPlayer(data) {
    if (this.isClosed) return;
    if ("audible" in data) return this.hooks.audible(data.audible, data.frame);
    if ("cut" in data) return this.hooks.cut(data.cut, data.frame);
    Object.assign(this.counters, data.counters, { reports: this.counters.reports + 1 });
    this.tellLatency();
    this.hooks.heard(data.epoch, data.heard);
  }

  // --- the reply: see playback-worklet.js

  /** It is known only while the device runs, and changes with it. */
  tellLatency() {
    this.player?.port.postMessage({ latency: this.latency_s });
  }

  play(frame) {
    this.player?.port.postMessage(frame, [frame]);
  }

  /** For a new session, whose epochs begin at 1 again. */
  beginAnew() {
    this.player?.port.postMessage({ anew: true });
  }

  dropBelow(epoch) {
    this.player?.port.postMessage({ oldest: epoch });
  }

  finish(epoch, total) {
    this.player?.port.postMessage({ epoch, total });
  }

  contentFrom(epoch, samples) {
    this.player?.port.postMessage({ epoch, content: samples });
  }

  // --- the microphone and the devices

  /** Closed, the microphone's place is taken by silence. */
  openMicrophone(open) {
    this.capture?.port.postMessage({ open });
  }

  /** Another microphone, in the middle of a session. Throws SoundFault and keeps the one there was. */
  async useInput(input) {
    const stream = await openMicrophone(input);
    if (this.isClosed) return stopAll(stream);
    stopAll(this.stream);
    this.stream = stream;
    this.listen();
  }

  /** "" is the system's choice. Throws SoundFault. */
  async useOutput(output) {
    if (!this.context.setSinkId) return;
    try {
      await this.context.setSinkId(output);
    } catch (error) {
      throw new SoundFault("NoOutput", error.message);
    }
  }

  resume() {
    return this.context.resume();
  }

  close() {
    this.isClosed = true;
    this.release();
  }

  release() {
    stopAll(this.stream);
    if (this.context && this.context.state !== "closed") this.context.close();
  }
}

/** Microphones and loudspeakers; without names until the microphone has been allowed once. */
export async function listDevices() {
  const all = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
  const named = all.filter(({ deviceId, label }) => deviceId && label && deviceId !== "default");
  const outputs = "setSinkId" in AudioContext.prototype ? named.filter(({ kind }) => kind === "audiooutput") : [];
  return { inputs: named.filter(({ kind }) => kind === "audioinput"), outputs };
}

/** At the device's own rate, where the wire can carry it. */
function newContext() {
  const context = new AudioContext({ latencyHint: "interactive" });
  if (context.sampleRate <= MAX_RATE_HZ) return context;
  context.close();
  return new AudioContext({ latencyHint: "interactive", sampleRate: MAX_RATE_HZ });
}

async function openMicrophone(input) {
  if (!window.isSecureContext || !navigator.mediaDevices) throw new SoundFault("Insecure");
  const audio = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };
  if (input) audio.deviceId = { exact: input };
  try {
    return await navigator.mediaDevices.getUserMedia({ audio });
  } catch (error) {
    if (error.name === "OverconstrainedError") return openMicrophone(""); // the chosen one is gone: any other
    throw new SoundFault(error.name, error.message);
  }
}

const stopAll = (stream) => stream?.getTracks().forEach((track) => track.stop());
