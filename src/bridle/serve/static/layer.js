/**
 * The layer behind a text field: the same text in colours, with line numbers and the marks of the linter. It has one
 * element per line, and only lines that changed are drawn again. Lines are numbered from 1.
 *
 * @typedef {import("./language.js").Language} Language
 * @typedef {{line: number, level: "error"|"warning"|"info", code: string, message: string,
 *            fix: {title: string, line: number, replacement: string|null}|null}} Finding
 * @typedef {Object} Layer
 * @property {HTMLElement} element
 * @property {(text: string) => void} draw
 * @property {(language: Language) => void} setLanguage
 * @property {(findings: Finding[]) => void} setFindings
 * @property {(line: number) => void} setCurrent   the line of the cursor
 * @property {(line: number) => Finding[]} findingsAt
 * @property {() => number[]} marked   the lines with findings
 * @property {(line: number) => HTMLElement|null} line
 * @property {(y: number) => number} lineUnder   the line at a height in the window, 0 if there is none
 * @property {(line: number, column: number) => {left: number, top: number, bottom: number}|null} place   in the window
 */
import { h } from "./dom.js";
import { createLanguage, linesOf, piecesOf } from "./language.js";

/** How levels of findings are shown: never by colour alone. @type {Object<string, {sign: string, word: string}>} */
export const LEVELS = {
  error: { sign: "✖", word: "error" }, warning: { sign: "▲", word: "warning" }, info: { sign: "i", word: "note" },
};

/** @param {Finding[]} lineFindings @returns {string} the worst level, "" if there are none */
export function worst(lineFindings) {
  return Object.keys(LEVELS).find((level) => lineFindings.some((finding) => finding.level === level)) ?? "";
}

/** @param {Finding[]} lineFindings @returns {string} */
export function describeFindings(lineFindings) {
  return lineFindings.map((finding) => `${LEVELS[finding.level].word}: ${finding.message}`).join("; ");
}

/** @returns {Layer} */
export function createLayer() {
  const element = h("div", { class: "layer" });
  let language = createLanguage();
  /** @type {Map<number, Finding[]>} */
  let findings = new Map();
  /** @type {string[]} */
  let lines = [];
  let current = 0;

  /** @param {number} number @returns {HTMLElement} */
  function drawn(number) {
    const lineFindings = findings.get(number) ?? [];
    const level = worst(lineFindings);
    const code = h("span", { class: "code", "aria-hidden": "true" }, piecesOf(lines[number - 1], language)
      .map(({ kind, text }) => (kind === "space" ? text : h("span", { class: `p-${kind}` }, text))));
    const mark = level && h("span", { class: "mark", role: "img", "aria-label": describeFindings(lineFindings) }, LEVELS[level].sign);
    return h("div", { class: `line${level ? ` has-${level}` : ""}${number === current ? " current" : ""}` }, mark || null, code);
  }

  /** @param {number} number @returns {any} */
  const line = (number) => element.children[number - 1] ?? null;

  return {
    element,
    line,
    findingsAt: (number) => findings.get(number) ?? [],
    marked: () => [...findings.keys()].filter((number) => number > 0).sort((a, b) => a - b),
    draw(text) {
      const before = lines;
      lines = linesOf(text);
      const least = Math.min(before.length, lines.length);
      let top = 0;
      while (top < least && before[top] === lines[top]) top++;
      let end = 0;
      while (end < least - top && before.at(-1 - end) === lines.at(-1 - end)) end++;
      const moved = lines.length - before.length;
      if (moved) { // findings stay with their lines until the linter has seen the new text
        findings = new Map([...findings].filter(([number]) => number <= top || number > before.length - end)
          .map(([number, lineFindings]) => [number > top ? number + moved : number, lineFindings]));
      }
      for (let k = before.length - end; k > top; k--) line(k).remove();
      const next = line(top + 1);
      for (let k = top + 1; k <= lines.length - end; k++) element.insertBefore(drawn(k), next);
    },
    setLanguage(known) {
      language = known;
      element.replaceChildren(...lines.map((_, k) => drawn(k + 1)));
    },
    setFindings(lineFindings) {
      const before = findings;
      findings = new Map();
      for (const finding of lineFindings) findings.set(finding.line, [...findings.get(finding.line) ?? [], finding]);
      for (const number of new Set([...before.keys(), ...findings.keys()])) {
        if (describeFindings(before.get(number) ?? []) !== describeFindings(findings.get(number) ?? [])) line(number)?.replaceWith(drawn(number));
      }
    },
    setCurrent(number) {
      if (number === current) return;
      line(current)?.classList.remove("current");
      line(number)?.classList.add("current");
      current = number;
    },
    lineUnder(y) {
      return 1 + [...element.children].findIndex((line) => {
        const box = line.getBoundingClientRect();
        return y >= box.top && y < box.bottom;
      });
    },
    place(number, column) {
      const code = line(number)?.querySelector(".code");
      if (!code) return null;
      const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const length = node.textContent?.length ?? 0;
        if (column <= length) {
          const range = document.createRange();
          range.setStart(node, column);
          range.collapse(true);
          return range.getBoundingClientRect();
        }
        column -= length;
      }
      return line(number).getBoundingClientRect();
    },
  };
}
