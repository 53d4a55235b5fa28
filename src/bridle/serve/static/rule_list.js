/**
 * One item per rule of the text: a switch, a slider for its penalty, and what it does to labelled data. The controls
 * edit the text. An element stays as long as its sentence is in the text, so nothing moves under the pointer.
 *
 * @typedef {import("./language.js").Language} Language
 * @typedef {{key: string, line: number, sentence: string, off: boolean, penalty: number|null, per: string}} RuleLine
 *   key: the sentence, and a number if it occurs twice
 * @typedef {(change: (text: string) => string, group?: string) => void} Edit
 *   changes the text of the rules; changes of one group are undone together
 */
import { fill, h } from "./dom.js";
import { figureLink } from "./filters.js";
import { marks } from "./gold_pane.js";
import { linesOf, piecesOf, readLine } from "./language.js";
import { setPenalty, shownNumber, toggle } from "./rules_text.js";
import { drawCurve } from "./tuning.js";
import { interval, lineLink, signed } from "./words.js";

const MOST = 10; // of a slider, unless the penalty is larger
const STEP = 0.1;
const MANY = 60; // rules of which only those in the window are laid out
const USUAL = 2.3; // the penalty of a rule that is made soft: a factor of ten in probability

/**
 * The rules of a text, those that are switched off among them.
 *
 * @param {string} text
 * @returns {RuleLine[]}
 */
export function rulesIn(text) {
  /** @type {Map<string, number>} */
  const times = new Map();
  /** @type {RuleLine[]} */
  const rules = [];
  linesOf(text).forEach((line, k) => {
    const { kind, off, sentence, penalty, per } = readLine(line);
    if (kind !== "rule") return;
    const nth = (times.get(sentence) ?? 0) + 1;
    times.set(sentence, nth);
    rules.push({ key: nth > 1 ? `${sentence}\n${nth}` : sentence, line: k + 1, sentence, off, penalty, per });
  });
  return rules;
}

/**
 * @param {HTMLElement} list   an <ul>
 * @param {import("./state.js").Store} store
 * @param {Edit} edit
 * @param {(line: number) => void} tuneLine
 * @returns {{draw: (state: import("./state.js").State, language: Language) => void, setFigures: (state: import("./state.js").State) => void}}
 */
export function createRuleList(list, store, edit, tuneLine) {
  /** @type {Map<string, ReturnType<typeof createItem>>} */
  let items = new Map();
  /** @type {Map<string, any>} */
  let figures = new Map();
  let evaluation = /** @type {any} */ (null);

  /** @param {string} key @param {(text: string, line: number, rule: RuleLine) => string} change @param {string} [group] */
  const editRule = (key, change, group) => edit((text) => {
    const rule = rulesIn(text).find((entry) => entry.key === key);
    return rule ? change(text, rule.line, rule) : text;
  }, group);

  return {
    setFigures(state) {
      evaluation = state.evaluation;
      const rows = new Map((evaluation?.rules ?? []).map((/** @type {any} */ row) => [row.line, row]));
      figures = new Map(rulesIn(state.rules).filter(({ line }) => rows.has(line)).map(({ key, line }) => [key, rows.get(line)]));
    },
    draw(state, language) {
      const rules = rulesIn(state.rules);
      const wrong = new Set((state.check?.findings ?? []).filter((/** @type {any} */ f) => f.level === "error").map((/** @type {any} */ f) => f.line));
      const next = new Map(rules.map((rule) => [rule.key, items.get(rule.key) ?? createItem(rule, store, editRule, tuneLine)]));
      const curves = new Map((state.curves?.curves ?? []).map((/** @type {any} */ curve) => [curve.line, curve]));
      for (const [key, item] of items) if (!next.has(key)) item.element.remove();
      rules.forEach((rule, k) => {
        const item = /** @type {ReturnType<typeof createItem>} */ (next.get(rule.key));
        item.draw(rule, language, wrong.has(rule.line), rule.off ? null : figures.get(rule.key), evaluation, rule.off ? null : curves.get(rule.line) ?? null);
        if (list.children[k] !== item.element) list.insertBefore(item.element, list.children[k] ?? null);
      });
      list.classList.toggle("many", rules.length > MANY);
      items = next;
    },
  };
}

/**
 * @param {RuleLine} first
 * @param {import("./state.js").Store} store
 * @param {(key: string, change: (text: string, line: number, rule: RuleLine) => string, group?: string) => void} editRule
 * @param {(line: number) => void} tuneLine
 */
function createItem({ key, sentence }, store, editRule, tuneLine) {
  let rule = /** @type {RuleLine} */ ({});
  /** @type {any[]} */
  let drawn = []; // what it was drawn from
  let frame = 0;
  let last = USUAL; // its penalty when it was soft

  const name = h("span", { class: "rule" });
  const box = h("input", {
    type: "checkbox", "aria-label": sentence,
    onchange: () => editRule(key, (text, line, now) => (now.off === box.checked ? toggle(text, line) : text)),
  });
  const range = h("input", { type: "range", min: 0, max: MOST, step: STEP, "aria-label": `Penalty of: ${sentence}`, oninput: () => slide(range) });
  const number = h("input", { type: "number", min: 0, step: "any", "aria-label": `Penalty of: ${sentence}, as a number`, oninput: () => slide(number) });
  number.addEventListener("blur", () => show());
  const per = h("small", { class: "dim" });
  const change = h("button", {
    type: "button", class: "small",
    onclick: () => editRule(key, (text, line, now) => setPenalty(text, line, now.penalty === null ? last : null)),
  });
  const tune = h("button", { type: "button", class: "small", "aria-label": `tune: ${sentence}`, title: "Find the best penalty for this rule, the others kept", onclick: () => tuneLine(rule.line) }, "tune");
  const curve = h("span", { class: "curve-box" });
  const soft = h("span", { class: "penalty" }, h("span", { class: "slide" }, range, curve), number, per);
  const about = h("p", { class: "about" });
  const element = h("li", {}, h("div", { class: "head" }, box, name), h("div", { class: "controls" }, soft, change, tune), about);

  /** At most one change per frame. @param {HTMLInputElement} input */
  function slide(input) {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      const value = input.valueAsNumber;
      if (Number.isFinite(value) && value >= 0) editRule(key, (text, line) => setPenalty(text, line, value), `penalty of ${key}`);
    });
  }

  function show() {
    const { penalty, off } = rule;
    const isSoft = penalty !== null;
    soft.hidden = !isSoft;
    const does = isSoft ? "make hard" : "make soft";
    if (change.textContent !== does) fill(change, does).setAttribute("aria-label", `${does}: ${sentence}`);
    change.disabled = range.disabled = number.disabled = off;
    if (!isSoft || Number.isNaN(penalty)) return;
    last = penalty;
    range.max = String(Math.max(Number(range.max), Math.ceil(penalty)));
    if (range.valueAsNumber !== penalty) range.value = String(penalty);
    if (document.activeElement !== number && number.value !== shownNumber(penalty)) number.value = shownNumber(penalty);
    if (per.textContent !== rule.per) fill(per, rule.per && `per ${rule.per}`);
  }

  return {
    element,
    /** @param {RuleLine} now @param {Language} language @param {boolean} wrong @param {any} row @param {any} evaluation @param {any} points */
    draw(now, language, wrong, row, evaluation, points) {
      const seen = [now.line, now.off, now.penalty, now.per, wrong, row, evaluation, language, points];
      if (seen.every((value, k) => Object.is(value, drawn[k]))) return;
      drawn = seen;
      rule = now;
      box.checked = !now.off;
      show();
      tune.hidden = now.off || !store.get().data?.has_gold || !store.get().model?.workspace;
      if (points && now.penalty !== null) fill(curve, drawCurve(points, Number(range.max), now.penalty));
      else if (!points) fill(curve);
      element.className = `${now.off ? "off" : ""} ${now.penalty === null ? "" : "soft"}`.trim();
      fill(name, lineLink(store, now.line, piecesOf(sentence, language).map(({ kind, text }) => h("span", { class: `p-${kind}` }, text))));
      fill(about, now.off ? "off" : row ? describeRow(row, store) : wrong ? "\u00a0" : null);
    },
  };
}

/** @param {any} row @param {import("./state.js").Store} store @returns {import("./dom.js").Child} */
function describeRow(row, store) {
  const link = (/** @type {string} */ whose, /** @type {number} */ count) => (count && row.line ? figureLink(store, `rule ${row.line} ${whose}`, `${count.toLocaleString("en")}×`) : `${count}×`);
  return [
    row.gold === null ? "" : [h("span", { class: row.gold ? "breaks" : "" }, "gold breaks it ", link("gold", row.gold)), ", "],
    "labels without rules ", link("plain", row.plain),
    row.gain && [", F1 ", signed(row.gain.gain), h("span", { class: "dim" }, ` (${interval(row.gain)})`)],
    " ", marks(row),
  ];
}
