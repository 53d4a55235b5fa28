/**
 * Edits of the text of a .rules file. Every function takes the whole text and returns the whole text, and changes no
 * line but the one that it is about. Lines are numbered from 1.
 *
 * @typedef {import("./language.js").Language} Language
 * @typedef {{label: string, text: string}} Span
 */
import { linesOf, quote, readLine, shownName, tokensOf, unquote } from "./language.js";

const GAP = 2; // spaces before a penalty
const COMMENT_GAP = 3; // spaces before a comment that had to move

/** @param {string} text @param {number} line @param {(line: string) => string|null} edit null: without that line @returns {string} */
function edited(text, line, edit) {
  const lines = linesOf(text);
  if (line < 1 || line > lines.length) return text;
  const replacement = edit(lines[line - 1]);
  lines.splice(line - 1, 1, ...(replacement === null ? [] : [replacement]));
  return lines.join("\n");
}

/**
 * Switch a rule off, or on again.
 *
 * @param {string} text
 * @param {number} line
 * @returns {string}
 */
export function toggle(text, line) {
  return edited(text, line, (old) => {
    const { kind, off, body } = readLine(old);
    if (off) return body;
    return kind === "rule" || kind === "example" || kind === "include" ? `# off: ${old}` : old;
  });
}

/**
 * Give a rule a penalty, change it, or take it away. Comments stay in their column if there is room.
 *
 * @param {string} text
 * @param {number} line
 * @param {number|null} value  null: a hard rule
 * @returns {string}
 */
export function setPenalty(text, line, value) {
  const column = penaltyColumn(text);
  return edited(text, line, (old) => {
    const parsed = readLine(old);
    if (parsed.kind !== "rule" || (value === null && parsed.penaltyStart < 0)) return old;
    const { prefix, body, per, penaltyStart, penaltyEnd, sentenceEnd, commentStart } = parsed;
    const comment = body.slice(commentStart);
    let start = body.slice(0, sentenceEnd);
    if (value !== null) {
      const penalty = `[penalty ${shownNumber(value)}${per ? ` per ${per}` : ""}]`;
      const gap = penaltyStart >= 0 ? penaltyStart - sentenceEnd
        : Math.max(GAP, commentStart >= column + penalty.length + 1 || !comment ? column - prefix.length - sentenceEnd : GAP);
      start += " ".repeat(gap) + penalty + (penaltyStart >= 0 ? body.slice(penaltyEnd, commentStart).trimEnd() : "");
    }
    if (!comment) return prefix + start;
    const space = commentStart - start.length;
    return prefix + start + " ".repeat(space > 0 ? space : penaltyStart >= 0 ? 1 : COMMENT_GAP) + comment;
  });
}

/** The column in which most penalties stand, 0 if there are none. @param {string} text @returns {number} */
function penaltyColumn(text) {
  /** @type {Map<number, number>} */
  const times = new Map();
  for (const line of linesOf(text)) {
    if (!line.includes("[penalty")) continue;
    const { kind, penaltyStart, prefix } = readLine(line);
    if (kind === "rule" && penaltyStart >= 0) times.set(penaltyStart + prefix.length, (times.get(penaltyStart + prefix.length) ?? 0) + 1);
  }
  return [...times].sort(([a, n], [b, m]) => m - n || a - b)[0]?.[0] ?? 0;
}

/** @param {number} value @returns {string} at most four digits after the point */
export function shownNumber(value) {
  return String(Number(value.toFixed(4)));
}

/**
 * Repair a line as the linter proposes.
 *
 * @param {string} text
 * @param {{line: number, replacement: string|null}} fix  null: delete the line
 * @returns {string}
 */
export function applyFix(text, fix) {
  return edited(text, fix.line, () => fix.replacement);
}

/**
 * Add a test case: this text has these segments and no others. It takes the place of an older one for the same text,
 * whose comment stays; otherwise it comes after the other test cases, or at the end.
 *
 * @param {string} text
 * @param {string} example      the text of the test case
 * @param {Span[]} spans        from left to right
 * @param {Language} language
 * @returns {string}
 */
export function addExample(text, example, spans, language) {
  const segments = spans.map((span) => `${shownName(span.label, language)} ${quote(span.text)}`);
  const testCase = `example ${quote(example)} is ${segments.join(", ") || "nothing"}`;
  const lines = linesOf(text);
  const examples = lines.map((line, k) => ({ k, line, read: readLine(line) })).filter(({ read }) => read.kind === "example" && !read.off);
  const same = examples.find(({ line }) => textOfExample(line) === example);
  if (same) return edited(text, same.k + 1, (old) => testCase + commentOf(old));
  const last = examples.at(-1);
  if (last) return [...lines.slice(0, last.k + 1), testCase, ...lines.slice(last.k + 1)].join("\n");
  const before = text.trimEnd();
  return `${before}${before ? "\n\n" : ""}${testCase}\n`;
}

/**
 * Add a rule after the last one.
 *
 * @param {string} text
 * @param {string} rule  with its comment, if it has one
 * @returns {string}
 */
export function addRule(text, rule) {
  const lines = linesOf(text);
  const last = lines.findLastIndex((line) => readLine(line).kind === "rule");
  if (last >= 0) return [...lines.slice(0, last + 1), rule, ...lines.slice(last + 1)].join("\n");
  const first = lines.findIndex((line) => readLine(line).kind === "example");
  if (first >= 0) return [...lines.slice(0, first), rule, "", ...lines.slice(first)].join("\n");
  const before = text.trimEnd();
  return `${before}${before ? "\n" : ""}${rule}\n`;
}

/**
 * Add a test case that a text has some segments, after the other test cases. One that is there already stays alone.
 *
 * @param {string} text
 * @param {string} example  the text of the test case
 * @param {Span[]} spans    from left to right
 * @param {Language} language
 * @returns {string}
 */
export function addSpans(text, example, spans, language) {
  const testCase = `example ${quote(example)} has ${spans.map((span) => `${shownName(span.label, language)} ${quote(span.text)}`).join(", ")}`;
  const lines = linesOf(text);
  if (lines.some((line) => line.startsWith(testCase))) return text;
  const last = lines.findLastIndex((line) => readLine(line).kind === "example" && !readLine(line).off);
  if (last >= 0) return [...lines.slice(0, last + 1), testCase, ...lines.slice(last + 1)].join("\n");
  const before = text.trimEnd();
  return `${before}${before ? "\n\n" : ""}${testCase}\n`;
}

/** @param {string} line @returns {string} its comment, and the spaces before it */
function commentOf(line) {
  const comment = line.slice(readLine(line).commentStart);
  return comment.trim() ? `  ${comment}` : "";
}

/** @param {string} text @param {string} example @returns {number[]} the lines of the test cases for a text */
export function linesOfExample(text, example) {
  return linesOf(text).flatMap((line, k) => {
    const { kind, off } = readLine(line);
    return kind === "example" && !off && textOfExample(line) === example ? [k + 1] : [];
  });
}

/** @param {string} line @returns {string|null} the text of a test case */
export function textOfExample(line) {
  const token = tokensOf(line)[1];
  return token?.kind === "quoted" ? unquote(token.text) : null;
}

/**
 * Make comments of lines, or, if all of them are comments, lines of comments.
 *
 * @param {string} text
 * @param {number} first
 * @param {number} last
 * @returns {string}
 */
export function toggleComments(text, first, last) {
  const lines = linesOf(text);
  const chosen = lines.slice(first - 1, last);
  const all = chosen.every((line) => /^\s*(#|$)/.test(line)) && chosen.some((line) => line.trim());
  const changed = chosen.map((line) => {
    if (!line.trim()) return line;
    return all ? (readLine(line).off ? readLine(line).body : line.replace(/^(\s*)# ?/, "$1")) : `# ${line}`;
  });
  lines.splice(first - 1, chosen.length, ...changed);
  return lines.join("\n");
}
