// The microphone's side of the audio thread: 20 ms frames, ready for the socket.
//
// Out: {frame: ArrayBuffer, peak: 0..1}. A frame is the 8-byte header (epoch 0, offset on this context's
// sample clock, both u32 big-endian) and PCM16LE mono at the context's rate.

const FRAME_S = 0.02;
const HEADER_BYTES = 8;

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.frameSamples = Math.round(FRAME_S * sampleRate);
    this.clock = 0;
    this.begin();
  }

  begin() {
    this.frame = new DataView(new ArrayBuffer(HEADER_BYTES + 2 * this.frameSamples));
    this.frame.setUint32(4, this.clock); // modulo 2^32, as the wire wants it
    this.used = 0;
    this.peak = 0;
  }

  process([[channel]]) {
    for (const value of channel ?? []) {
      const sample = Math.max(-1, Math.min(1, value));
      this.frame.setInt16(HEADER_BYTES + 2 * this.used, Math.round(32767 * sample), true);
      this.peak = Math.max(this.peak, Math.abs(sample));
      if (++this.used === this.frameSamples) this.finish();
    }
    return true;
  }

  finish() {
    const frame = this.frame.buffer;
    this.port.postMessage({ frame, peak: this.peak }, [frame]);
    this.clock += this.frameSamples;
    this.begin();
  }
}

registerProcessor("capture", Capture);
