/** Figures over labelled data: what each rule does to it, alone and among the others. */

import { byId, fill, h } from "./dom.js";
import { counted, lineLink, number, percent, problem } from "./words.js";

const LITTLE = 0.0005; // a gain below this is none: it is printed as 0.0

/**
 * What a rule gains, in shares from 0 to 1.
 *
 * @param {any} row of evaluation.rules
 * @param {any} all of the evaluation
 * @returns {{alone: any, among: any}} f1 and accuracy each; null without gold or if not computed
 */
export function gains(row, all) {
  const less = (/** @type {any} */ a, /** @type {any} */ b) => (a && b ? { f1: a.f1 - b.f1, accuracy: a.accuracy - b.accuracy } : null);
  return { alone: less(row.alone, all.none), among: less(all.all, row.without) };
}

/** @param {any} gain of `gains` @returns {string} "helps", "hurts", "mixed", or "" */
export function verdict(gain) {
  if (!gain.among) return "";
  const signs = [gain.among.f1, gain.among.accuracy].map((g) => (g > LITTLE ? 1 : g < -LITTLE ? -1 : 0));
  if (signs.includes(1) && signs.includes(-1)) return "mixed";
  return signs.includes(-1) ? "hurts" : signs.includes(1) ? "helps" : "";
}

/** @param {import("./state.js").Store} store */
export function createGoldPane(store) {
  store.subscribe((state, changed) => {
    if (["data", "evaluation", "evaluationError"].some((key) => changed.has(key))) draw(state, store);
  });
  draw(store.get(), store);
}

/** @param {import("./state.js").State} state @param {import("./state.js").Store} store */
function draw(state, store) {
  const evaluation = state.evaluation, body = byId("figures-body");
  byId("figures").hidden = !state.data;
  byId("scores").hidden = !evaluation?.none;
  byId("scores").classList.toggle("old", Boolean(state.evaluationError));
  fill(byId("scores"), evaluation?.none ? [tiles(evaluation), h("button", {
    type: "button", class: "link", onclick: () => byId("figures").scrollIntoView({ block: "start" }),
  }, "Figures per rule")] : null);
  if (!state.data) return void fill(body);
  const error = !state.evaluationError ? null : state.evaluationError.code !== "unreadable" ? problem(state.evaluationError, store)
    : h("p", { class: "dim" }, "These are the figures of the last rules that could be read.");
  if (!evaluation) return void fill(body, state.evaluationError ? problem(state.evaluationError, store) : h("p", { class: "dim" }, "Computing …"));
  const box = body.querySelector(".wide"), left = box?.scrollLeft ?? 0;
  fill(body, error, h("div", { class: error ? "old" : "" },
    sentence(evaluation), table(evaluation, store),
    evaluation.none ? null : h("p", { class: "dim" }, "The data has no gold labels, so there is nothing to measure accuracy and F1 against.")));
  if (left) body.querySelector(".wide").scrollLeft = left;
  return undefined;
}

/** @param {any} evaluation @returns {any} the figures that matter, without and with rules */
function tiles(evaluation) {
  const names = [["f1", "segments, F1"], ["accuracy", "tokens right"], ["all_right", "sequences all right"]];
  return names.map(([key, name]) => h("div", { class: "tile" },
    h("span", { class: "dim" }, name),
    h("span", { class: "big" }, percent(evaluation.none[key]), h("span", { class: "unseen" }, " without rules,"), h("span", { class: "dim", "aria-hidden": "true" }, " → "),
      h("strong", {}, percent(evaluation.all[key])), h("span", { class: "unseen" }, " with all rules")),
    h("span", { class: "meter", "aria-hidden": "true" },
      h("span", { class: "before", style: { width: `${evaluation.none[key] * 100}%` } }),
      h("span", { class: "after", style: { width: `${evaluation.all[key] * 100}%` } }))));
}

/** @param {any} evaluation @returns {any} */
function sentence(evaluation) {
  const better = evaluation.none ? ` (${evaluation.improved.length} better, ${evaluation.worse.length} worse)` : "";
  const relaxed = evaluation.relaxed.length ? ` In ${evaluation.relaxed.length} no labelling obeys the hard rules.` : "";
  return h("p", { class: "dim" }, `${counted(evaluation.sequences, "sequence")}, ${counted(evaluation.tokens, "token")}. Without rules, `,
    `${evaluation.broken.length} break a rule; the rules change ${evaluation.changed.length}${better}.${relaxed}`);
}

/** @param {any} evaluation @param {import("./state.js").Store} store @returns {any} */
function table(evaluation, store) {
  const gold = Boolean(evaluation.none);
  const rows = evaluation.rules.map((/** @type {any} */ row) => ({ row, gain: gains(row, evaluation) }));
  const most = Math.max(LITTLE, ...rows.map((/** @type {any} */ r) => Math.abs(r.gain.among?.f1 ?? 0)));
  const group = (/** @type {string} */ name, /** @type {number} */ span) => h("th", { scope: "colgroup", colspan: span, class: "group" }, name);
  const head = (/** @type {string} */ name) => h("th", { scope: "col", class: "number" }, name);
  return h("div", { class: "wide", tabindex: 0, role: "group", "aria-label": "Figures per rule, scrollable" }, h("table", { class: "figures" },
    h("thead", {},
      h("tr", {}, h("td", {}), group("sequences that break it", gold ? 3 : 2), gold ? [group("gain in F1", 3), group("gain in accuracy", 2)] : h("td", {})),
      h("tr", {}, h("th", { scope: "col" }, "rule"), gold ? head("gold") : null, head("plain"), head("ruled"),
        gold ? [head("alone"), head("in all"), h("td", { "aria-hidden": "true" }), head("alone"), head("in all")] : head("changed"))),
    h("tbody", {}, rows.map((/** @type {any} */ r) => tableRow(r.row, r.gain, gold, most, store))),
    gold ? h("tfoot", {}, total("without rules", evaluation.none), total("with all rules", evaluation.all)) : null));
}

/** @param {string} name @param {any} f @returns {any} */
function total(name, f) {
  return h("tr", {}, h("th", { scope: "row", colspan: 4 }, name),
    h("td", { class: "number", colspan: 2 }, `F1 ${percent(f.f1)}`), h("td", {}),
    h("td", { class: "number", colspan: 2 }, percent(f.accuracy)));
}

/** @param {any} row @param {any} gain @param {boolean} gold @param {number} most @param {import("./state.js").Store} store @returns {any} */
function tableRow(row, gain, gold, most, store) {
  const word = verdict(gain);
  const count = (/** @type {number|null} */ n) => h("td", { class: n ? "number" : "number dim" }, n ?? "–");
  const gained = (/** @type {number|undefined} */ g) => h("td", { class: `number ${sign(g)}` }, g === undefined ? "…" : percent(g, { sign: true, unit: false }));
  const go = () => row.line && store.set({ goto: { line: row.line } });
  return h("tr", { class: row.line ? "leads" : "", onclick: (/** @type {any} */ event) => event.target.closest("button") || go() },
    h("th", { scope: "row" }, lineLink(store, row.line, row.rule), word === "hurts" || word === "mixed" ? h("span", { class: "word" }, word === "hurts" ? "hurts" : "helps and hurts") : null),
    gold ? count(row.gold) : null, count(row.plain), count(row.best),
    gold ? [
      gained(gain.alone?.f1), gained(gain.among?.f1), h("td", { class: "spark", "aria-hidden": "true" }, spark(gain.among?.f1 ?? 0, most)),
      gained(gain.alone?.accuracy), gained(gain.among?.accuracy),
    ] : h("td", { class: "number" }, row.changed ?? "…"));
}

/** @param {number|undefined} g @returns {string} */
function sign(g) {
  return g === undefined || Math.abs(g) < LITTLE ? "dim" : g > 0 ? "good" : "bad";
}

/** @param {number} g @param {number} most @returns {any} a bar to the right for a gain, to the left for a loss */
function spark(g, most) {
  const width = `${number((Math.abs(g) / most) * 50, { digits: 1 })}%`;
  return h("span", { class: "axis" }, h("span", { class: g < 0 ? "loss" : "gain", style: { width, [g < 0 ? "right" : "left"]: "50%" } }));
}
