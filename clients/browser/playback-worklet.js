// The loudspeaker's side of the audio thread: one reply at a time, behind a small jitter buffer.
//
// In:  an ArrayBuffer   a binary frame as it came: epoch, offset_samples (u32 big-endian), then PCM16LE mono at
//                       the context's rate (browsers run on little-endian machines only)
//      {oldest}         nothing of an epoch below this may be heard from now on
//      {total, epoch}   so many samples are all of that reply
//      {latency}        seconds from here to the ear
// Out: {epoch, heard, ...counters} about every 100 ms while a reply sounds, and when all of it has.

const REPORT_S = 0.1;
const LEAD_S = 0.04; // queued before a reply starts, or goes on after an underrun
const HEADER_BYTES = 8;

class Playback extends AudioWorkletProcessor {
  constructor() {
    super();
    this.oldest = 0;
    this.latency = 0;
    this.last = 0; // faded out where sound breaks off, so that it does not click
    this.counters = { peak: 0, played: 0, dropped: 0, underruns: 0 };
    this.clear();
    this.port.onmessage = ({ data }) => this.onMessage(data);
  }

  onMessage(data) {
    if (data instanceof ArrayBuffer) this.onFrame(new DataView(data), new Int16Array(data, HEADER_BYTES));
    else if ("oldest" in data) this.advance(data.oldest);
    else if ("latency" in data) this.latency = Math.round(data.latency * sampleRate);
    else if (data.epoch === this.oldest) this.total = data.total;
  }

  onFrame(header, pcm) {
    const epoch = header.getUint32(0);
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
    this.used = 0; // of the first in the queue
    this.queued = 0;
    this.total = null;
    this.playing = false;
    this.position = 0; // of the reply: one past the last sample handed to the device
    this.idle = 0; // samples since then
    this.reported = 0;
    this.sinceReport = 0;
  }

  process(_, [[out]]) {
    if (this.queued && (this.queued >= LEAD_S * sampleRate || this.total !== null)) this.playing = true;
    let filled = 0;
    while (this.playing && this.queued && filled < out.length) out[filled++] = this.next();
    this.counters.played += filled;
    this.idle = filled ? 0 : this.idle + out.length;
    if (filled < out.length) this.pause(out, filled);
    this.sinceReport += out.length;
    const heard = this.heard();
    if (heard > this.reported && (this.sinceReport >= REPORT_S * sampleRate || heard === this.total)) this.report();
    return true;
  }

  next() {
    const { offset, pcm } = this.queue[0];
    this.last = pcm[this.used++] / 32768;
    this.counters.peak = Math.max(this.counters.peak, Math.abs(this.last));
    this.position = offset + this.used;
    this.queued -= 1;
    if (this.used === pcm.length) {
      this.queue.shift();
      this.used = 0;
    }
    return this.last;
  }

  pause(out, filled) {
    const length = out.length - filled;
    for (let i = 1; i <= length; i++) out[filled + i - 1] = this.last * (1 - i / length);
    this.last = 0;
    if (this.playing && this.position !== this.total) this.counters.underruns += 1;
    this.playing = false;
  }

  // Out of the loudspeaker: the last `latency` samples are still on their way there.
  heard() {
    return Math.max(this.reported, this.position - Math.max(0, this.latency - this.idle));
  }

  report() {
    const heard = this.heard();
    if (heard > 0) this.port.postMessage({ epoch: this.oldest, heard, ...this.counters });
    this.reported = heard;
    this.sinceReport = 0;
  }
}

registerProcessor("playback", Playback);
