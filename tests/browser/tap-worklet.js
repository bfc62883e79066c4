// What the page sends to the loudspeaker, for a test to listen to: {frame, samples} of each quantum.

class Tap extends AudioWorkletProcessor {
  process([[channel]]) {
    if (channel) this.port.postMessage({ frame: currentFrame, samples: channel.slice() });
    return true;
  }
}

registerProcessor("tap", Tap);
