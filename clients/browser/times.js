// The panel beside the conversation: one turn's waterfall, and the last turns in a table.

import { blameText, create, drawBar, drawRows, felt, headline, ms, notes, spanOf } from "./waterfall.js";

const TURNS_KEPT = 20;
const IN_TIME = ["met", "degraded"];

export class Times {
  /** `part(name)`: the element of the panel with that data-part. */
  constructor(part) {
    this.part = part;
    this.records = []; // newest first
    this.chosen = null;
  }

  add(record) {
    const followed = this.chosen === null || this.chosen === this.records[0];
    this.records = [record, ...this.records].slice(0, TURNS_KEPT);
    if (followed || !this.records.includes(this.chosen)) this.chosen = record;
    this.draw();
  }

  choose(record) {
    if (!record.ended) return;
    this.chosen = record;
    this.draw();
  }

  draw() {
    const { part, chosen } = this;
    part("none").hidden = true;
    part("some").hidden = false;
    part("which").textContent = `Turn ${chosen.number}`;
    part("verdict").textContent = chosen.ended.verdict;
    part("verdict").dataset.verdict = chosen.ended.verdict;
    part("headline").textContent = headline(chosen);
    part("budget").textContent = `budget ${ms(chosen.budget_ms)}`;
    part("budget").style.left = `${(100 * chosen.budget_ms) / spanOf(chosen.ended, chosen.budget_ms)}%`;
    drawBar(part("bar"), chosen.ended, chosen.budget_ms);
    drawRows(part("stages"), chosen.ended, chosen.budget_ms);
    part("notes").replaceChildren(...notes(chosen).map((text) => create("li", {}, text)));
    part("history").replaceChildren(...this.records.map((record) => this.row(record)));
    part("summary").textContent = summary(this.records);
  }

  row(record) {
    const { ended, budget_ms, number } = record;
    const { felt_estimate_ms: felt_ms, blame, speculation } = ended;
    const choose = create("button", { type: "button" }, `${number}`);
    choose.setAttribute("aria-label", `Show turn ${number}`);
    choose.setAttribute("aria-pressed", String(record === this.chosen));
    choose.onclick = () => {
      this.choose(record);
      this.part("history").querySelector('[aria-pressed="true"]').focus();
    };
    const bar = create("div", { className: "bar" });
    bar.setAttribute("aria-hidden", "true");
    const longest = Math.max(...this.records.map((each) => spanOf(each.ended, each.budget_ms)));
    drawBar(bar, ended, budget_ms, longest);
    const verdict = create("td", {}, ended.verdict);
    verdict.dataset.verdict = ended.verdict;
    const row = create("tr", {}, create("th", { scope: "row" }, choose));
    row.append(
      create("td", { className: "took" }, felt_ms === null ? "–" : felt(felt_ms), bar),
      verdict,
      create("td", {}, blame ? blameText(blame) : "–"),
      create(
        "td",
        { title: `${speculation.attempts} begun ahead` },
        speculation.hit ? "hit" : speculation.attempts ? "in vain" : "–",
      ),
    );
    row.dataset.turn = number;
    return row;
  }
}

function summary(records) {
  const answered = records
    .filter(({ ended }) => ended.felt_estimate_ms !== null)
    .map(({ ended }) => ended.felt_estimate_ms);
  answered.sort((a, b) => a - b);
  const inTime = records.filter(({ ended }) => IN_TIME.includes(ended.verdict)).length;
  const hits = records.filter(({ ended }) => ended.speculation.hit).length;
  const median = answered.length ? `, median ${felt(answered[Math.floor((answered.length - 1) / 2)])}` : "";
  return `Last ${records.length === 1 ? "turn" : `${records.length} turns`}: ${inTime} in time${median}, ${hits} begun ahead and held.`;
}
