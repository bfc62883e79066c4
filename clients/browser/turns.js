// The conversation: what was said, by whom, as it is said. Whatever came from a person or a model is set as text.

const TURNS_SHOWN = 100;
const LINES_TOLD = 20; // of the conversation so far, to a session that goes on with it
const MAX_LINE_CHARS = 4000;

export class Turns {
  /** announce(text): for screen readers. chosen(record): its times are to be shown. */
  constructor({ list, template, hint }, { announce, chosen }) {
    this.list = list;
    this.template = template;
    this.hint = hint;
    this.announce = announce;
    this.chosen = chosen;
    this.count = 0; // of all sessions
    this.records = []; // oldest first; those whose item is on the page
    this.newSession();
  }

  /** Turn numbers begin at 1 again; what is on the page stays. */
  newSession() {
    this.byTurn = new Map();
    this.unheard = []; // reply texts whose sound has not been reached: {record, epoch, offset, text}
  }

  of(turn) {
    if (!this.byTurn.has(turn)) this.byTurn.set(turn, this.add());
    return this.byTurn.get(turn);
  }

  add() {
    const item = this.template.content.cloneNode(true).firstElementChild;
    const part = (name) => item.querySelector(`.${name}`);
    const record = {
      number: ++this.count,
      item,
      part,
      user: "",
      reply: "",
      epoch: 0,
      ended: null,
      page_ms: null,
      isCut: false,
    };
    part("times").onclick = () => this.chosen(record);
    this.list.append(item);
    this.records.push(record);
    if (this.records.length > TURNS_SHOWN) this.forgetOldest();
    this.hint.hidden = true;
    return record;
  }

  forgetOldest() {
    const oldest = this.records.shift();
    oldest.item.remove();
    for (const [turn, record] of this.byTurn) if (record === oldest) this.byTurn.delete(turn);
  }

  // --- the user

  hear(turn, stable, tentative) {
    const record = this.of(turn);
    record.part("stable").textContent = stable;
    record.part("tentative").textContent = stable && tentative ? ` ${tentative}` : tentative;
  }

  final(turn, text) {
    this.hear(turn, text, "");
    const record = this.of(turn);
    const isCorrection = record.user !== "" && record.user !== text;
    record.user = text;
    this.announce(isCorrection ? `You, corrected: ${text}` : `You: ${text}`);
  }

  // --- the reply

  committed(turn, epoch) {
    const record = this.of(turn);
    record.epoch = epoch;
    record.item.dataset.phase = "thinking";
  }

  /** The user went on: what was said of the reply is taken back. */
  reopened(turn) {
    this.unheard = [];
    const record = this.of(turn);
    [record.reply, record.part("reply").textContent] = ["", ""];
    delete record.item.dataset.phase;
  }

  acknowledged(turn) {
    this.of(turn).item.classList.add("acknowledged");
  }

  replyText({ turn, epoch, text, offset_samples }) {
    this.unheard.push({ record: this.of(turn), epoch, offset: offset_samples, text });
  }

  /** The reply of `epoch` has sounded up to `samples`: show the words that have begun. Whether there were any. */
  heard(epoch, samples) {
    const begun = this.unheard.filter((piece) => piece.epoch === epoch && piece.offset < samples);
    for (const { record, text } of begun) {
      record.reply += text;
      record.part("reply").append(text);
      record.item.dataset.phase = "speaking";
      this.announce(text);
    }
    if (begun.length) this.unheard = this.unheard.filter((piece) => !begun.includes(piece));
    return begun.length > 0;
  }

  interrupted(turn) {
    this.unheard = [];
    const record = this.of(turn);
    record.isCut = true;
    record.item.classList.add("cut");
  }

  ended(turn, ended, budget_ms) {
    const record = this.of(turn);
    for (const { epoch } of this.unheard.filter((piece) => piece.record === record)) this.heard(epoch, Infinity);
    Object.assign(record, { ended, budget_ms });
    delete record.item.dataset.phase;
    record.item.dataset.verdict = ended.verdict;
    if (ended.verdict === "empty") record.item.classList.add("empty");
    return record;
  }

  /** Turns of a session that is gone have no end of their own any more. */
  abandon() {
    for (const record of this.byTurn.values()) {
      if (record.ended) continue;
      record.item.classList.add("broken");
      delete record.item.dataset.phase;
    }
    this.newSession();
  }

  byEpoch(epoch) {
    return [...this.byTurn.values()].findLast((record) => record.epoch === epoch);
  }

  /** The conversation so far, for a new session: {role, text}, oldest first. */
  memory() {
    const lines = this.records.flatMap(({ user, reply }) => [
      { role: "user", text: user.slice(0, MAX_LINE_CHARS) },
      { role: "assistant", text: reply.trim().slice(0, MAX_LINE_CHARS) },
    ]);
    return lines.filter(({ text }) => text).slice(-LINES_TOLD);
  }
}
