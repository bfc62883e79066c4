// The loudspeaker's side of the audio thread: one reply at a time, behind a small jitter buffer.
//
// In:  an ArrayBuffer   a binary frame as it came: epoch, offset_samples (u32 big-endian), then PCM16LE mono at
//                       the context's rate (browsers run on little-endian machines only)
//      {anew}           a new session, whose epochs begin at 1 again
//      {oldest}         nothing of an epoch below this may be heard from now on
//      {total, epoch}   so many samples are all of that reply
//      {content, epoch} its first so many samples are a sound that says nothing
//      {latency}        seconds from here to the ear
// Out: {epoch, heard, counters}  about every 100 ms while a reply sounds, and when all of it has
//      {audible, frame}          epoch; the context's frame at which its content could first be heard
//      {cut, frame}              epoch; the context's frame from which on nothing of it sounded, thrown away half-played

const REPORT_S = 0.1;
const LEAD_S = 0.04; // queued before a reply starts
const MAX_LEAD_S = 0.16; // and at most, before it goes on after an underrun; each one doubles it
const MAX_QUEUED_S = 60; // a server is never so far ahead
const AUDIBLE = 10 ** (-50 / 20); // mean square root of a window of 10 ms
const WINDOW_S = 0.01;
const HEADER_BYTES = 8;

class Playback extends AudioWorkletProcessor {
  constructor() {
    super();
    this.oldest = 0;
    this.latency = 0;
    this.last = 0; // faded out where sound breaks off, so that it does not click
    this.counters = { peak: 0, played: 0, dropped: 0, underruns: 0 };
    this.window = Math.round(WINDOW_S * sampleRate);
    this.clear();
    this.port.onmessage = ({ data }) => this.onMessage(data);
  }

  onMessage(data) {
    if (data instanceof ArrayBuffer) this.onFrame(new DataView(data), new Int16Array(data, HEADER_BYTES));
    else if ("anew" in data) this.beginAnew();
    else if ("oldest" in data) this.advance(data.oldest);
    else if ("latency" in data) this.latency = Math.round(data.latency * sampleRate);
    else if (data.epoch !== this.oldest) return;
    else if ("content" in data) this.content = data.content;
    else this.total = data.total;
  }

  onFrame(header, pcm) {
    const epoch = header.getUint32(0);
    this.advance(epoch);
    if (epoch < this.oldest || this.queued > MAX_QUEUED_S * sampleRate) {
      this.counters.dropped += pcm.length;
      return;
    }
    this.queue.push({ offset: header.getUint32(4), pcm });
    this.queued += pcm.length;
  }

  advance(epoch) {
    if (epoch <= this.oldest) return;
    this.counters.dropped += this.queued;
    if (this.playing) this.port.postMessage({ cut: this.oldest, frame: currentFrame });
    this.report();
    this.clear();
    this.oldest = epoch;
  }

  beginAnew() {
    this.advance(Infinity);
    this.oldest = 0;
  }

  clear() {
    this.queue = [];
    this.used = 0; // of the first in the queue
    this.queued = 0;
    this.lead = LEAD_S;
    this.total = null;
    this.content = 0; // of the reply: where it begins to say something
    this.playing = false;
    this.position = 0; // of the reply: one past the last sample handed to the device
    this.idle = 0; // samples since then
    this.reported = 0;
    this.sinceReport = 0;
    this.isAudible = false;
    this.sum = 0; // of squares in the present window
    this.summed = 0;
  }

  process(_, [[out]]) {
    if (this.queued && (this.queued >= this.lead * sampleRate || this.total !== null)) this.playing = true;
    let filled = 0;
    while (this.playing && this.queued && filled < out.length) {
      out[filled] = this.next();
      if (!this.isAudible && this.position > this.content) this.listen(out[filled], currentFrame + filled);
      filled += 1;
    }
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

  // Until a window of the content is loud enough; it counts from the window's first sample.
  listen(value, frame) {
    this.sum += value * value;
    if (++this.summed < this.window) return;
    this.isAudible = Math.sqrt(this.sum / this.window) > AUDIBLE;
    if (this.isAudible) this.port.postMessage({ audible: this.oldest, frame: frame + 1 - this.window });
    this.sum = this.summed = 0;
  }

  pause(out, filled) {
    const length = out.length - filled;
    for (let i = 1; i <= length; i++) out[filled + i - 1] = this.last * (1 - i / length);
    this.last = 0;
    if (this.playing && this.position !== this.total) {
      this.counters.underruns += 1;
      this.lead = Math.min(MAX_LEAD_S, 2 * this.lead);
    }
    this.playing = false;
  }

  // Out of the loudspeaker: the last `latency` samples are still on their way there.
  heard() {
    return Math.max(this.reported, this.position - Math.max(0, this.latency - this.idle));
  }

  report() {
    const heard = this.heard();
    if (heard > 0) this.port.postMessage({ epoch: this.oldest, heard, counters: { ...this.counters } });
    this.reported = heard;
    this.sinceReport = 0;
  }
}

registerProcessor("playback", Playback);
