/** Numbers and problems in words, as every pane writes them. */

import { h } from "./dom.js";

/**
 * A score: 12.34, −0.5, +0.50 with `sign`.
 *
 * @param {number|null|undefined} value
 * @param {{digits?: number, sign?: boolean}} [how]
 * @returns {string}
 */
export function number(value, { digits = 2, sign = false } = {}) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  const text = Math.abs(value).toFixed(digits);
  const zero = Number(text) === 0;
  return (value < 0 && !zero ? "−" : sign && !zero ? "+" : "") + text;
}

/**
 * A share from 0 to 1 as 94.2 %.
 *
 * @param {number|null|undefined} share
 * @param {{sign?: boolean, unit?: boolean}} [how]
 * @returns {string}
 */
export function percent(share, { sign = false, unit = true } = {}) {
  if (share === null || share === undefined) return "–";
  return number(share * 100, { digits: 1, sign }) + (unit ? "\u202f%" : "");
}

/** @param {number} count @param {string} singular @param {string} [many] @returns {string} "1 token", "1,200 tokens" */
export function counted(count, singular, many = `${singular}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? singular : many}`;
}

/**
 * Positions as people write them: 3–5, 9. They count from 0, as rules do.
 *
 * @param {number[]} at in order
 * @returns {string}
 */
export function places(at) {
  return runs(at).slice(0, 12).map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ")
    + (runs(at).length > 12 ? ", …" : "");
}

/**
 * Runs of consecutive numbers.
 *
 * @param {number[]} at in order
 * @param {(a: number, b: number) => boolean} [together] may b follow a in one run?
 * @returns {[number, number][]} first and last of each
 */
export function runs(at, together = () => true) {
  /** @type {[number, number][]} */
  const ranges = [];
  for (const t of at) {
    const last = ranges[ranges.length - 1];
    if (last && last[1] === t - 1 && together(last[1], t)) last[1] = t;
    else ranges.push([t, t]);
  }
  return ranges;
}

/**
 * A button that leads to a line of the rules.
 *
 * @param {import("./state.js").Store} store
 * @param {number|null|undefined} line
 * @param {import("./dom.js").Child} text
 * @returns {any}
 */
export function lineLink(store, line, text) {
  if (!line) return h("span", { class: "rule" }, text);
  return h("button", {
    type: "button", class: "link rule", title: `Go to line ${line} of the rules`,
    onclick: () => store.set({ goto: { line } }),
  }, text);
}

/**
 * An error in its four parts: what, got, wanted, cause.
 *
 * @param {any} error an ApiError
 * @param {import("./state.js").Store} store
 * @returns {any}
 */
export function problem(error, store) {
  const parts = [["Got", error.got], ["Expected", error.wanted]].filter(([, value]) => value !== null && value !== undefined);
  return h("div", { class: "problem" },
    h("p", {}, h("strong", {}, sentence(error.what))),
    parts.length ? h("dl", {}, parts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, shortly(value))])) : null,
    error.cause ? h("p", {}, shortly(error.cause)) : null,
    error.line ? h("p", {}, lineLink(store, error.line, `Line ${error.line} of the rules`)) : null);
}

/** @param {any} value @returns {string} */
function shortly(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 400 ? `${text.slice(0, 400)} …` : text;
}

/** @param {string} text @returns {string} with a capital letter */
export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** @param {string} text @returns {string} with a capital letter and a full stop */
function sentence(text) {
  const begun = capital(text);
  return /[.!?…:]$/.test(begun) ? begun : `${begun}.`;
}

/**
 * A difference of two shares in points, with its sign, in green or red.
 *
 * @param {number} difference
 * @param {{unit?: boolean}} [how]
 * @returns {any}
 */
export function signed(difference, { unit = true } = {}) {
  const kind = Math.abs(difference) < 0.0005 ? "dim" : difference > 0 ? "good" : "bad";
  return h("span", { class: kind }, number(difference * 100, { digits: 1, sign: true }) + (unit ? " points" : ""));
}

/**
 * The ends of an interval, in points.
 *
 * @param {{low: number, high: number}} gain
 * @param {{unit?: boolean}} [how]
 * @returns {string}
 */
export function interval({ low, high }, { unit = true } = {}) {
  const text = [low, high].map((end) => number(end * 100, { digits: 1, sign: true })).join(" to ");
  return unit ? `interval ${text}` : text;
}
