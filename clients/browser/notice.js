// The one box that says what is wrong, and has the buttons to go on with. A count of seconds is seen, not read out:
// screen readers are told once, with the text.

const TICK_MS = 250;

export class Notice {
  /** `box` has .title, .help, .countdown, and two buttons: .primary and .secondary. */
  constructor(box) {
    this.box = box;
    this.timer = 0;
  }

  part(name) {
    return this.box.querySelector(`.${name}`);
  }

  /**
   * kind: for the looks; title, help: text; due: performance.now() of what is counted down to, `counted(seconds)`
   * its words; primary, secondary: {text, act, waits}; a button that waits cannot be used before it is due.
   */
  show({ kind, title, help = "", due = null, counted = () => "", primary = null, secondary = null }) {
    clearInterval(this.timer);
    this.box.dataset.kind = kind;
    this.part("title").textContent = title;
    this.part("help").textContent = help;
    this.button("primary", primary);
    this.button("secondary", secondary);
    this.box.hidden = false;
    const tick = () => {
      const left_s = due === null ? 0 : Math.max(0, Math.ceil((due - performance.now()) / 1000));
      this.part("countdown").textContent = due === null ? "" : counted(left_s);
      for (const name of ["primary", "secondary"])
        this.part(name).setAttribute(
          "aria-disabled",
          String(this.part(name).dataset.waits === "true" && left_s > 0),
        );
      if (!left_s) clearInterval(this.timer);
    };
    if (due !== null) this.timer = setInterval(tick, TICK_MS);
    tick();
  }

  button(name, wish) {
    const button = this.part(name);
    button.hidden = wish === null;
    if (wish === null) return;
    button.textContent = wish.text;
    button.dataset.waits = String(wish.waits ?? false);
    button.onclick = () => button.getAttribute("aria-disabled") === "true" || wish.act();
  }

  hide() {
    clearInterval(this.timer);
    this.box.hidden = true;
    this.box.dataset.kind = "";
  }
}
