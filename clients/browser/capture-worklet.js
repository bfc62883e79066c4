// The microphone's side of the audio thread: 20 ms frames, ready for the socket.
//
// In:  {open}  whether what the microphone hears goes out; closed, silence does, so that the clock goes on
// Out: {begun} once: the context's frame at which the clock of the offsets is 0
//      {missed} so many samples, all in all, for which a busy browser did not ask this node: they are sent as silence,
//      so that the clock of the offsets stays the context's
//      {frame, peak, closed} a frame is the 8-byte header (epoch 0, offset on that clock, both u32 big-endian) and
//      PCM16LE mono at the context's rate; peak is 0..1; closed: nothing that was said before {open: false} follows

const FRAME_S = 0.02;
const HEADER_BYTES = 8;

class Capture extends AudioWorkletProcessor {
  constructor({ processorOptions: { isOpen } }) {
    super();
    this.frameSamples = Math.round(FRAME_S * sampleRate);
    this.clock = 0; // of the frame that is filled: its first sample
    this.open = isOpen;
    this.isClosing = false;
    this.begun = null;
    this.missed = 0;
    this.port.onmessage = ({ data }) => {
      this.isClosing = this.open && !data.open;
      this.open = data.open;
    };
    this.begin();
  }

  begin() {
    this.frame = new DataView(new ArrayBuffer(HEADER_BYTES + 2 * this.frameSamples));
    this.frame.setUint32(4, this.clock); // modulo 2^32, as the wire wants it
    this.used = 0;
    this.peak = 0;
  }

  process([[channel]], [[out]]) {
    if (this.begun === null) {
      if (!channel) return true; // no microphone yet
      this.begun = currentFrame;
      this.port.postMessage({ begun: currentFrame });
    }
    this.catchUp(currentFrame - this.begun - this.clock - this.used);
    const heard = this.open ? channel : null; // a device that is being changed is silent too
    for (let i = 0; i < out.length; i++) this.take(heard ? heard[i] : 0);
    return true;
  }

  catchUp(missed) {
    if (missed <= 0) return;
    for (let i = 0; i < missed; i++) this.take(0);
    this.missed += missed;
    this.port.postMessage({ missed: this.missed });
  }

  take(value) {
    const sample = Math.max(-1, Math.min(1, value));
    this.frame.setInt16(HEADER_BYTES + 2 * this.used, Math.round(32767 * sample), true);
    this.peak = Math.max(this.peak, Math.abs(sample));
    if (++this.used === this.frameSamples) this.finish();
  }

  finish() {
    const frame = this.frame.buffer;
    this.port.postMessage({ frame, peak: this.peak, closed: this.isClosing }, [frame]);
    this.isClosing = false;
    this.clock += this.frameSamples;
    this.begin();
  }
}

registerProcessor("capture", Capture);
