// One websocket in the native dialect (voicepipe.v1): messages and frames out, messages and frames in.
// Knows neither the page nor sound.

export const PROTOCOL = "voicepipe.v1";

const HEADER_BYTES = 8;
const MAX_UNSENT_BYTES = 64 * 1024; // beyond it sound is left out; the offsets tell the server so
const MAX_STALL_MS = 5000; // without a byte gone out the way is taken for broken, long before the browser does
const MAX_CLOSING_MS = 2000;

/** The token holds characters that no browser can send. */
export class TokenFault extends Error {}

/** Where sessions are served, beside this page. `query`: what the request itself carries: budget_ms, route. */
export function voiceUrl(query) {
  const url = new URL("v1/voice", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  url.search = new URLSearchParams(query).toString();
  return url;
}

export class Wire {
  /**
   * hooks: opened(), message(object), audio({epoch, offset, frame}), closed({code, reason}). None is called after
   * `close()`. Throws TokenFault.
   */
  constructor(url, token, hooks) {
    this.over = false;
    this.unreadable = 0; // messages that were no JSON, and frames without a header: dropped
    this.unsent = 0; // frames that were left out because the network did not keep up
    this.stalledSince = null; // performance.now()
    this.closed = hooks.closed;
    try {
      this.socket = new WebSocket(url, token ? [PROTOCOL, token] : [PROTOCOL]);
    } catch (error) {
      throw new TokenFault(error.message);
    }
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.over || hooks.opened();
    this.socket.onclose = ({ code, reason }) => this.over || this.closed({ code, reason });
    this.socket.onmessage = ({ data }) => {
      if (this.over) return;
      if (typeof data === "string") this.read(data, hooks);
      else if (data.byteLength < HEADER_BYTES) this.unreadable += 1;
      else hooks.audio({ ...header(data), frame: data });
    };
  }

  read(text, hooks) {
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      this.unreadable += 1;
      return;
    }
    hooks.message(message);
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  send(message) {
    if (this.isOpen) this.socket.send(JSON.stringify(message));
  }

  /** A frame of the microphone, header included. False where it was left out. */
  sendFrame(frame) {
    if (!this.isOpen) return false;
    if (this.socket.bufferedAmount > MAX_UNSENT_BYTES) return this.leaveOut();
    this.stalledSince = null;
    this.socket.send(frame);
    return true;
  }

  leaveOut() {
    this.unsent += 1;
    this.stalledSince ??= performance.now();
    if (performance.now() - this.stalledSince > MAX_STALL_MS) {
      this.close();
      this.closed({ code: 1006, reason: "nothing gets through" });
    }
    return false;
  }

  /** In good order where there is a session to end. Done when the server knows, or does not answer. */
  close() {
    this.over = true;
    this.send({ type: "session.end" });
    return new Promise((done) => {
      if (this.socket.readyState === WebSocket.CLOSED) return done();
      this.socket.onclose = done;
      setTimeout(done, MAX_CLOSING_MS);
      if (this.socket.readyState === WebSocket.CONNECTING)
        this.socket.onopen = () => this.socket.close(); // or browsers warn
      else this.socket.close();
    });
  }
}

function header(frame) {
  const view = new DataView(frame);
  return { epoch: view.getUint32(0), offset: view.getUint32(4) };
}
