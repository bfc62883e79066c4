// What a person chooses: the dialog, what is kept in this browser, and what it means for a session.
// The token is kept in this page only, and nowhere else.

import { listDevices } from "./sound.js";

const KEPT = "voicepipe.settings";
const FIELDS = ["budget_ms", "operating_point", "enforcement", "turn_taking", "input", "output"];
const BUDGET_MS = [1, 60000]; // what the wire takes
const SESSION_WIDE = ["budget_ms", "operating_point", "enforcement", "turn_taking", "token"];

export class Settings {
  /** `form`: with a control for each of FIELDS and the token. changed(names): hooks for what was changed. */
  constructor(dialog, form, changed) {
    this.dialog = dialog;
    this.form = form;
    this.changed = changed;
    this.values = { ...this.asked(), ...this.valid(kept()), ...this.valid(fromUrl()) };
    form.onsubmit = (event) => this.onSubmit(event);
    dialog.querySelector("[data-close]").onclick = () => dialog.close();
    dialog.onclick = ({ target }) => {
      if (target === dialog) dialog.close(); // beside it
    };
    if (navigator.mediaDevices) navigator.mediaDevices.ondevicechange = () => dialog.open && this.showDevices();
  }

  // --- for a session

  /** What goes with the request. */
  get query() {
    const query = Object.fromEntries(new URLSearchParams(location.search));
    const { budget_ms } = this.values;
    return { ...("route" in query && { route: query.route }), ...(budget_ms && { budget_ms }) };
  }

  /** Fields of session.start; what is left to the server is left out. */
  get start() {
    const { operating_point, enforcement, turn_taking } = this.values;
    return {
      ...(operating_point && { operating_point }),
      ...(enforcement && { enforcement }),
      ...(turn_taking && { turn_taking }),
    };
  }

  get isManual() {
    return this.values.turn_taking === "manual";
  }

  get token() {
    return this.values.token ?? "";
  }

  get devices() {
    return { input: this.values.input, output: this.values.output };
  }

  // --- the dialog

  async open(focus = null) {
    for (const name of [...FIELDS, "token"]) this.control(name).value = this.values[name] ?? "";
    if (!this.dialog.open) this.dialog.showModal();
    if (focus) this.control(focus).focus();
    await this.showDevices();
  }

  control(name) {
    return this.form.elements.namedItem(name);
  }

  async showDevices() {
    const { inputs, outputs } = await listDevices();
    this.fill("input", inputs);
    this.fill("output", outputs);
    this.control("output").closest("label").hidden = !("setSinkId" in AudioContext.prototype);
  }

  fill(name, devices) {
    const control = this.control(name);
    const chosen = this.values[name] ?? "";
    control.replaceChildren(
      new Option("The system's choice", ""),
      ...devices.map((d) => new Option(d.label, d.deviceId)),
    );
    if (chosen && !devices.some(({ deviceId }) => deviceId === chosen))
      control.add(new Option("One that is not here now", chosen));
    control.value = chosen;
  }

  onSubmit(event) {
    event.preventDefault();
    const before = this.values;
    this.values = this.asked();
    keep(this.values);
    this.dialog.close();
    const names = [...FIELDS, "token"].filter((name) => (before[name] ?? "") !== this.values[name]);
    if (names.length)
      this.changed(
        names,
        names.some((name) => SESSION_WIDE.includes(name)),
      );
  }

  asked() {
    return Object.fromEntries([...FIELDS, "token"].map((name) => [name, this.control(name).value.trim()]));
  }

  valid(values) {
    return Object.fromEntries(Object.entries(values).filter(([name, value]) => this.isValid(name, value)));
  }

  isValid(name, value) {
    if (name === "budget_ms")
      return /^\d{1,5}(\.\d{1,6})?$/.test(value) && value >= BUDGET_MS[0] && value <= BUDGET_MS[1];
    if (["input", "output"].includes(name)) return true; // what is here is known later
    return [...this.control(name).options].some((option) => option.value === value);
  }
}

/** Storage may be full or forbidden: then a choice holds until the page is closed. */
function keep(values) {
  const { token, ...others } = values;
  try {
    localStorage.setItem(KEPT, JSON.stringify(others));
  } catch {
    console.info("settings are not kept: this browser does not let pages store anything");
  }
}

function kept() {
  try {
    const values = JSON.parse(localStorage.getItem(KEPT)) ?? {};
    return Object.fromEntries(
      FIELDS.filter((name) => typeof values[name] === "string").map((name) => [name, values[name]]),
    );
  } catch {
    return {};
  }
}

/** A link may bring its own, such as /?budget_ms=300&operating_point=safe. */
function fromUrl() {
  const query = new URLSearchParams(location.search);
  const names = SESSION_WIDE.filter((name) => name !== "token" && query.has(name));
  return Object.fromEntries(names.map((name) => [name, query.get(name)]));
}
