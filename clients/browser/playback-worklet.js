// The loudspeaker's side of the audio thread: one reply at a time behind a small jitter buffer.
//
// In:  an ArrayBuffer     a binary frame as it came: epoch, offset_samples (u32 big-endian), PCM16LE at the
//                         context's rate (this machine is taken to be little-endian, like every browser's)
//      {oldest}           nothing of an epoch below this may be heard from now on
//      {total, epoch}     all of that reply has been sent: so many samples
//      {latency}          seconds from here to the ear
// Out: {epoch, heard, ...counters} about every 100 ms while a reply plays, and when it has been heard.

const REPORT_S = 0.1;
const LEAD_S = 0.04; // queued before a reply starts; grows with each underrun
const LEAD_STEP_S = 0.02;
const LEAD_MOST_S = 0.2;
const HEADER_BYTES = 8;

class Playback extends AudioWorkletProcessor {
  constructor() {
    super();
    this.oldest = 0;
    this.lead = LEAD_S * sampleRate;
    this.latency = 0;
    this.fade = 0; // last sample that was heard: faded out where sound breaks off, so that it does not click
    this.peak = 0;
    this.counters = { played: 0, dropped: 0, underruns: 0 };
    this.clear();
    this.port.onmessage = ({ data }) => this.onMessage(data);
  }

  onMessage(data) {
    if (data instanceof ArrayBuffer) this.onFrame(data);
    else if ("oldest" in data) this.advance(data.oldest);
    else if ("latency" in data) this.latency = Math.round(data.latency * sampleRate);
    else if (data.epoch === this.oldest) this.total = data.total;
  }

  onFrame(buffer) {
    const header = new DataView(buffer);
    const epoch = header.getUint32(0);
    const pcm = new Int16Array(buffer, HEADER_BYTES);
    this.advance(epoch);
    if (epoch < this.oldest) {
      this.counters.dropped += pcm.length;
      return;
    }
    this.queue.push({ offset: header.getUint32(4), pcm });
    this.queued += pcm.length;
  }

  advance(epoch) {
    if (epoch <= this.oldest) return;
    this.counters.dropped += this.queued;
    this.report();
    this.clear();
    this.oldest = epoch;
  }

  clear() {
    this.queue = [];
    this.used = 0; // of the queue's first piece
    this.queued = 0;
    this.position = 0; // one past the last sample of this reply handed to the device
    this.idle = 0; // samples since anything was
    this.total = null;
    this.playing = false;
    this.sinceReport = 0;
    this.reported = 0;
  }

  process(_, [[out]]) {
    if (this.queued && (this.queued >= this.lead || this.total !== null)) this.playing = true;
    const filled = this.playing ? this.fill(out) : 0;
    if (filled < out.length) this.pause(out, filled);
    this.counters.played += filled;
    this.sinceReport += out.length;
    const heard = this.heard();
    if (heard > this.reported && (this.sinceReport >= REPORT_S * sampleRate || heard === this.total)) this.report();
    return true;
  }

  fill(out) {
    let filled = 0;
    while (filled < out.length && this.queue.length) {
      const { offset, pcm } = this.queue[0];
      const count = Math.min(out.length - filled, pcm.length - this.used);
      for (let i = 0; i < count; i++) {
        const sample = pcm[this.used + i] / 32768;
        this.peak = Math.max(this.peak, Math.abs(sample));
        out[filled + i] = sample;
      }
      filled += count;
      this.used += count;
      this.queued -= count;
      this.position = offset + this.used;
      if (this.used === pcm.length) {
        this.queue.shift();
        this.used = 0;
      }
    }
    if (filled) this.fade = out[filled - 1];
    this.idle = 0;
    return filled;
  }

  pause(out, filled) {
    const count = out.length - filled;
    for (let i = 0; i < count; i++) out[filled + i] = this.fade * (1 - (i + 1) / count);
    this.fade = 0;
    this.idle += count;
    if (!this.playing) return;
    this.playing = false;
    if (this.position === this.total) return;
    this.counters.underruns += 1;
    this.lead = Math.min(this.lead + LEAD_STEP_S * sampleRate, LEAD_MOST_S * sampleRate);
  }

  // What has come out of the loudspeaker: the last `latency` samples are still on their way.
  heard() {
    return Math.max(this.reported, this.position - Math.max(0, this.latency - this.idle));
  }

  report() {
    const heard = this.heard();
    if (!heard) return;
    this.port.postMessage({ epoch: this.oldest, heard, peak: this.peak, ...this.counters });
    this.reported = heard;
    this.sinceReport = 0;
    this.peak = 0;
  }
}

registerProcessor("playback", Playback);
