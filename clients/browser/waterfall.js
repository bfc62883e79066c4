// Where the time of a turn went, from the end of speech to the first sound of the answer, against the budget.

import { verdictText } from "./explain.js";

export const STAGES = ["endpoint", "asr", "llm", "tts", "send"];
const MEANINGS = {
  endpoint: "being sure that you have finished",
  asr: "hearing the words",
  llm: "finding an answer",
  tts: "making it sound",
  send: "on its way to your ear",
};
const ROOM = 1.04; // beside the longest thing that is drawn

export const ms = (value) => `${Math.round(value)} ms`;
/** Never rounded down to a budget that was missed. */
export const felt = (value) => `${Math.ceil(value)} ms`;

export function create(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

export const totalOf = ({ stages }) =>
  STAGES.reduce((sum, name) => sum + stages[name].wait_ms + stages[name].service_ms, 0);

/** Width of the drawing, in ms. */
export const spanOf = (ended, budget_ms) => ROOM * Math.max(totalOf(ended), ended.felt_estimate_ms ?? 0, budget_ms);

/** All stages in one line, and the budget. */
export function drawBar(bar, ended, budget_ms, span_ms = spanOf(ended, budget_ms)) {
  const pieces = STAGES.flatMap((name) => {
    const { wait_ms, service_ms } = ended.stages[name];
    return [piece(name, "wait", wait_ms, span_ms), piece(name, "work", service_ms, span_ms)];
  });
  bar.replaceChildren(...pieces.filter((node) => node !== null), budgetLine(budget_ms, span_ms));
}

/** A row per stage, each where the one before it ended. */
export function drawRows(body, ended, budget_ms) {
  const span_ms = spanOf(ended, budget_ms);
  let at_ms = 0;
  const rows = STAGES.map((name) => {
    const { wait_ms, service_ms } = ended.stages[name];
    const lane = create("div", { className: "lane" });
    const pieces = [
      piece(name, "wait", wait_ms, span_ms, at_ms),
      piece(name, "work", service_ms, span_ms, at_ms + wait_ms),
    ];
    lane.append(...pieces.filter((node) => node !== null), budgetLine(budget_ms, span_ms));
    at_ms += wait_ms + service_ms;
    const head = create("th", { scope: "row", title: MEANINGS[name] }, name);
    head.dataset.stage = name;
    const drawn = create("td", { className: "drawn" }, lane);
    const took = create("td", { className: "took" }, create("span", {}, ms(wait_ms + service_ms)));
    took.append(create("span", { className: "unseen" }, `, ${ms(wait_ms)} of it waiting`));
    return create(
      "tr",
      { title: `${MEANINGS[name]}: ${ms(wait_ms)} waiting, ${ms(service_ms)} at work` },
      head,
      drawn,
      took,
    );
  });
  body.replaceChildren(...rows);
}

/** Sentences under the drawing. */
export function notes({ ended, budget_ms, page_ms }) {
  const { felt_estimate_ms: felt_ms, system_ms, blame, speculation } = ended;
  const said = [];
  if (blame) said.push(`Blamed on ${blameText(blame)}: ${ms(blame.ms)} over.`);
  if (speculation.hit) said.push(ahead(speculation));
  else if (speculation.attempts)
    said.push("Begun ahead, but in vain: you went on in another way than was guessed.");
  if (speculation.wasted_ms >= 1)
    said.push(`Work for other guesses: ${ms(speculation.wasted_ms)}, ${speculation.attempts} begun.`);
  if (system_ms !== null)
    said.push(`From the decision that you had finished to the first sound sent: ${ms(system_ms)}.`);
  if (page_ms !== null)
    said.push(`In this page, from the news of that decision to the loudspeaker: ${ms(page_ms)}.`);
  if (felt_ms === null) said.push(`Budget: ${ms(budget_ms)}.`);
  return said;
}

/** "llm, service"; the endpoint's own kind has the same name. */
export const blameText = ({ stage, kind }) => (stage === kind ? stage : `${stage}, ${kind}`);

function ahead({ saved_ms }) {
  const work = saved_ms >= 1 ? `; ${ms(saved_ms)} of its work were done before your speech ended` : "";
  return `The answer was begun before it was certain that you had finished, and it held${work}.`;
}

/** "met, 149 ms of 200 ms" */
export function headline({ ended, budget_ms }) {
  const { felt_estimate_ms: felt_ms } = ended;
  return felt_ms === null ? verdictText(ended) : `${verdictText(ended)}: ${felt(felt_ms)} of ${ms(budget_ms)}`;
}

function piece(stage, kind, length_ms, span_ms, at_ms = null) {
  if (length_ms <= 0) return null;
  const node = create("span", { className: kind });
  node.dataset.stage = stage;
  node.style.width = `${(100 * length_ms) / span_ms}%`;
  if (at_ms !== null) node.style.left = `${(100 * at_ms) / span_ms}%`;
  return node;
}

function budgetLine(budget_ms, span_ms) {
  const line = create("i", { className: "budget" });
  line.style.left = `${(100 * budget_ms) / span_ms}%`;
  return line;
}
