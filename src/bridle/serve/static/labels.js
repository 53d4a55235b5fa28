/**
 * Labelled tokens: the segments of a labelling, their colours, and how they are drawn.
 *
 * @typedef {{start: number, end: number, type: string, outside: boolean}} Segment   end: the token after its last one
 * @typedef {{tokens: string[], offsets: number[][]|null}} Text
 * @typedef {Object} Marks
 * @property {string[]|null} [was]   labels without rules; tokens whose label is another one are marked as changed
 * @property {(string|null)[]|null} [gold]  gold labels; tokens whose label is another one are marked as wrong
 */

import { h, fill } from "./dom.js";
import { counted } from "./words.js";

const COLOURS = 12; // classes type-0 to type-11 in style.css
const BEGINS = new Set(["B", "S"]);
const ENDS = new Set(["E", "S"]);

/**
 * The tag and the type of a label: B-PER is the tag B of the type PER. The outside label has no tag.
 *
 * @param {any} model @param {string} label
 * @returns {{tag: string, type: string}}
 */
export function split(model, label) {
  const scheme = model?.scheme;
  if (label === "O" && scheme !== "BMES") return { tag: "", type: label };
  if (!scheme) return { tag: "I", type: label };
  const match = /^([BIMES])(?:-(.*))?$/su.exec(label);
  if (match && match[2] !== undefined) return { tag: match[1], type: match[2] };
  return match && scheme === "BMES" ? { tag: match[1], type: "WORD" } : { tag: "I", type: label };
}

/**
 * The class that gives a label the colour of its type: the same one as long as the model is the same.
 *
 * @param {any} model @param {string} label
 * @returns {string} "" for the outside label; "type-unknown" for a label that the model does not have
 */
export function typeClass(model, label) {
  const { tag, type } = split(model, label);
  if (!tag) return "";
  const types = [...new Set((model?.labels ?? []).map((/** @type {string} */ l) => split(model, l)).filter((/** @type {any} */ s) => s.tag)
    .map((/** @type {any} */ s) => s.type))];
  const k = types.indexOf(type);
  return k < 0 ? "type-unknown" : `type-${k % COLOURS}`;
}

/**
 * The segments of a labelling, tokens outside of all segments among them.
 *
 * @param {any} model @param {string[]} labels
 * @returns {Segment[]}
 */
export function segments(model, labels) {
  /** @type {Segment[]} */
  const spans = [];
  const parts = new Map([...new Set(labels)].map((label) => [label, split(model, label)]));
  let before = "";
  for (const [t, label] of labels.entries()) {
    const { tag, type } = /** @type {any} */ (parts.get(label));
    const last = spans[spans.length - 1];
    const same = last && last.type === type && last.outside === !tag;
    if (same && !BEGINS.has(tag) && !ENDS.has(before)) last.end = t + 1;
    else spans.push({ start: t, end: t + 1, type, outside: !tag });
    before = tag;
  }
  return spans;
}

const WHOLE = 400; // tokens up to which nothing is folded
const NEAR = 12; // tokens shown on either side of a mark
const MOST = 3000; // tokens that are shown at first, whatever is marked

/**
 * Draw a labelling: each segment with the name of its type. Long stretches without a mark are folded.
 *
 * @param {Element} root its children are replaced
 * @param {any} model @param {Text} text @param {string[]} labels @param {Marks} [marks]
 */
export function drawLabels(root, model, text, labels, marks = {}) {
  const types = new Map(labels.map((label) => [label, ""]));
  for (const label of types.keys()) types.set(label, typeClass(model, label));
  const differs = (/** @type {any} */ others, /** @type {number} */ t) => (others?.[t] ?? labels[t]) !== labels[t];
  const open = visible(labels.length, (t) => differs(marks.was, t) || differs(marks.gold, t));
  const line = h("p", { class: "tokens", dir: "auto" });
  let folded = 0;
  const flush = () => {
    if (!folded) return;
    line.append(h("button", {
      type: "button", class: "fold", onclick: () => unfold(),
    }, `… ${counted(folded, "token")} without a mark …`), " ");
    folded = 0;
  };
  const unfold = () => {
    open.fill(1);
    draw();
  };
  const draw = () => {
    fill(line);
    for (const segment of segments(model, labels)) {
      let t = segment.start;
      while (t < segment.end) {
        if (!open[t]) { folded += 1; t += 1; continue; }
        flush();
        let end = t;
        while (end < segment.end && open[end]) end += 1;
        drawSegment(line, segment, t, end);
        t = end;
      }
    }
    flush();
  };
  const drawSegment = (/** @type {Element} */ into, /** @type {Segment} */ segment, /** @type {number} */ start, /** @type {number} */ end) => {
    const box = segment.outside ? into
      : h("span", { class: `segment ${types.get(labels[start])}` }, h("b", { class: "tag" }, h("bdi", {}, segment.type)), "\u00a0");
    for (let t = start; t < end; t += 1) {
      const changed = differs(marks.was, t), wrong = differs(marks.gold, t);
      const kind = `token${changed ? " changed" : ""}${wrong ? " wrong" : ""}`;
      const said = [labels[t], changed ? `without rules ${marks.was?.[t]}` : "", wrong ? `gold ${marks.gold?.[t]}` : ""];
      box.append(h("span", { class: kind, "data-t": t, title: said.filter(Boolean).join(", ") }, text.tokens[t]));
      const ends = (/** @type {any} */ others) => differs(others, t)
        && (t + 1 === end || !differs(others, t + 1) || others?.[t + 1] !== others?.[t]);
      if (ends(marks.was)) box.append(" ", h("bdi", { class: "was" }, "was ", h("bdi", {}, name(model, marks.was?.[t]))));
      if (ends(marks.gold)) box.append(" ", h("bdi", { class: "not" }, "≠ ", h("bdi", {}, name(model, marks.gold?.[t])), h("span", { class: "unseen" }, " in gold")));
      if (t + 1 < end && spaced(text, t)) box.append(" ");
    }
    if (box !== into) into.append(box);
    if (spaced(text, end - 1)) into.append(" ");
    else if (box !== into && types.get(labels[end])) into.append("\u200b"); // segments without spaces: Chinese, for example
  };
  draw();
  fill(root, line);
}

/** @param {any} model @param {string|null|undefined} label @returns {string} its type */
function name(model, label) {
  return label === undefined || label === null ? "?" : split(model, label).type;
}

/** @param {Text} text @param {number} t @returns {boolean} is there space after token t? */
function spaced(text, t) {
  return !text.offsets || t + 1 >= text.offsets.length || text.offsets[t][1] < text.offsets[t + 1][0];
}

/** @param {number} n @param {(t: number) => boolean} marked @returns {Uint8Array} which tokens are drawn at first */
function visible(n, marked) {
  const open = new Uint8Array(n).fill(n <= WHOLE ? 1 : 0);
  if (n <= WHOLE) return open;
  open.fill(1, 0, WHOLE / 2);
  let shown = WHOLE / 2;
  for (let t = 0; t < n && shown < MOST; t += 1) {
    if (!marked(t)) continue;
    for (let u = Math.max(0, t - NEAR); u < Math.min(n, t + NEAR + 1); u += 1) {
      shown += open[u] ? 0 : 1;
      open[u] = 1;
    }
  }
  return open;
}

/**
 * Highlight the tokens at these positions below an element, or none.
 *
 * @param {Element} root @param {number[]} at
 */
export function light(root, at) {
  const positions = new Set(at);
  for (const token of root.querySelectorAll(".token.lit")) token.classList.remove("lit");
  if (!positions.size) return;
  for (const token of root.querySelectorAll(".token")) {
    token.classList.toggle("lit", positions.has(Number(/** @type {any} */ (token).dataset.t)));
  }
}
