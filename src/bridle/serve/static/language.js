/**
 * The language of .rules files: the parts of a line, as highlighting shows them and as the rule list reads them.
 *
 * The server decides what a rule means; this module only cuts lines apart, so it also works on lines that are wrong.
 * rules_text.js edits the text, completions.js proposes how it goes on. Lines are numbered from 1.
 *
 * @typedef {"comment"|"quoted"|"regex"|"mark"|"word"|"open"} TokenKind   open: a quotation without its end
 * @typedef {{kind: TokenKind, text: string, start: number, end: number}} Token
 * @typedef {"space"|"comment"|"off"|"keyword"|"connective"|"label"|"unknown"|"number"|"value"|"regex"|"quoted"
 *           |"penalty"|"mark"|"path"|"open"} PieceKind
 * @typedef {{kind: PieceKind, text: string}} Piece   the pieces of a line, put together, are the line
 * @typedef {{names: Set<string>, words: Set<string>, sentences: {sentence: string, example: string, summary: string}[],
 *            labels: string[]}} Language   names: labels and types; words: label names only in quotation marks
 *
 * @typedef {Object} Line
 * @property {"blank"|"comment"|"rule"|"example"|"include"} kind
 * @property {boolean} off          switched off: a comment that begins with "# off: "
 * @property {string} prefix        "# off: " as it stands there, or ""
 * @property {string} body          the line without the prefix; positions below count in it
 * @property {string} sentence      without penalty and comment
 * @property {number} sentenceEnd
 * @property {number|null} penalty  null: hard; NaN: it has one that is not a number
 * @property {string} per           "violation", "sequence" or ""
 * @property {number} penaltyStart  of "[", -1 without one
 * @property {number} penaltyEnd    after "]"
 * @property {number} commentStart  of "#", or the length of the body
 * @property {string} comment       without "#"
 */

const TOKEN = /\s*(?:(?<comment>#[^]*)|(?<quoted>"(?:[^"\\]|\\[^])*")|(?<regex>\/(?:[^/\\]|\\[^])*\/)|(?<mark>[,()[\]])|(?<open>"[^]*)|(?<word>[^\s,()[\]"#]+))/y;
const OFF = /^\s*#\s?off:\s?/;
const INCLUDE = /^(\s*include)(\s+)("[^"]+"|[^\s"#]\S*)(\s*)(#[^]*)?$/;
const EXAMPLE = /^\s*example\s*"/;
const NUMBER = /^-?\d+(\.\d+)?$|^\d+:\d+$/;
const FLOAT = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

export const CONNECTIVES = new Set(["not", "and", "or", "implies", "iff"]);
/** Words that cannot be label names without quotation marks, whatever the server says. */
const RESERVED = ("allow around at before by duplicates ends exactly fix followed forbid formed from given if is label least " +
  "length matches most next no nowhere of over penalty per present same starts then to tokens well with").split(" ");
/** Words of sentences that are labels if the model has labels of that name. */
const CONTEXTUAL = new Set(("first last token segment segments for equal ignoring case in among after re has example include " +
  "sequence violation nothing").split(" "));
/** After these words, a quotation is not a label. */
const NO_LABEL_AFTER = new Set(["matches", "in", "among", "tokens", "example"]);
/** After these words, a word before an expression or a list is a column. */
const COLUMN_AFTER = new Set(["at", "after", "before", "around"]);

/**
 * What is known of the model and of the server.
 *
 * @param {{labels?: string[], types?: string[], sentences?: {sentence: string, example: string, summary: string}[]}} [known]
 * @returns {Language}
 */
export function createLanguage({ labels = [], types = [], sentences = [] } = {}) {
  const words = new Set([...RESERVED, ...CONNECTIVES]);
  for (const { sentence } of sentences) {
    for (const word of sentence.replace(/\{[^}]*\}/g, " ").match(/[a-z]+/g) ?? []) if (!CONTEXTUAL.has(word)) words.add(word);
  }
  // Types first: people write rules about segments.
  return { names: new Set([...labels, ...types]), words, sentences, labels: [...new Set([...types, ...labels])] };
}

/** @param {string} text @returns {string[]} */
export function linesOf(text) {
  return text.split("\n");
}

/**
 * The tokens of a line, as the library cuts it.
 *
 * @param {string} line
 * @returns {Token[]}
 */
export function tokensOf(line) {
  /** @type {Token[]} */
  const tokens = [];
  TOKEN.lastIndex = 0;
  for (let match = TOKEN.exec(line); match; match = TOKEN.exec(line)) {
    const [kind, text] = /** @type {[TokenKind, string]} */ (Object.entries(match.groups ?? {}).find(([, value]) => value !== undefined));
    tokens.push({ kind, text, start: TOKEN.lastIndex - text.length, end: TOKEN.lastIndex });
  }
  return tokens;
}

/** @type {Map<string, Line>} lines that were read lately: a key changes one of many */
const recent = new Map();
const MOST_RECENT = 5000;

/**
 * What a line is, and where its parts are.
 *
 * @param {string} line
 * @returns {Line}
 */
export function readLine(line) {
  const known = recent.get(line) ?? lineRead(line);
  if (recent.size >= MOST_RECENT) recent.clear();
  recent.set(line, known);
  return known;
}

/** @param {string} line @returns {Line} */
function lineRead(line) {
  const prefix = OFF.exec(line)?.[0] ?? "";
  const body = line.slice(prefix.length);
  const tokens = tokensOf(body);
  const last = tokens.at(-1);
  const commentStart = last?.kind === "comment" ? last.start : body.length;
  const solid = tokens.filter((token) => token.kind !== "comment");
  const open = solid.findIndex((token, k) => token.text === "[" && token.kind === "mark" && solid[k + 1]?.text === "penalty");
  const close = open < 0 ? -1 : solid.findIndex((token, k) => k > open && token.text === "]" && token.kind === "mark");
  const words = open < 0 ? solid : solid.slice(0, open);
  const amount = close < 0 ? "" : solid[open + 2].text;
  return {
    kind: !solid.length ? (commentStart < body.length ? "comment" : "blank") : EXAMPLE.test(body) ? "example"
      : INCLUDE.test(body) ? "include" : "rule",
    off: prefix !== "" && solid.length > 0,
    prefix, body,
    sentence: body.slice(words[0]?.start ?? 0, words.at(-1)?.end ?? 0),
    sentenceEnd: words.at(-1)?.end ?? 0,
    penalty: open < 0 ? null : FLOAT.test(amount) ? Number(amount) : NaN,
    per: close < 0 ? "" : solid.slice(open, close).findLast((token) => /^(violation|sequence)$/.test(token.text))?.text ?? "",
    penaltyStart: open < 0 ? -1 : solid[open].start,
    penaltyEnd: open < 0 ? -1 : (close < 0 ? solid[solid.length - 1] : solid[close]).end,
    commentStart,
    comment: body.slice(commentStart + 1).trim(),
  };
}

/**
 * The pieces of a line for highlighting.
 *
 * @param {string} line
 * @param {Language} language
 * @returns {Piece[]}
 */
export function piecesOf(line, language) {
  const { kind, off, prefix, body, penaltyStart, penaltyEnd } = readLine(line);
  if (off) return [{ kind: "off", text: line }];
  if (kind === "include") {
    const [, word, gap, path, space = "", comment = ""] = /** @type {RegExpExecArray} */ (INCLUDE.exec(body));
    return joined([["keyword", word], ["space", gap], ["path", path], ["space", space], ["comment", comment]]);
  }
  const tokens = tokensOf(line);
  /** @type {[PieceKind, string][]} */
  const pieces = [];
  let at = 0;
  let clause = ""; // the last keyword
  tokens.forEach((token, k) => {
    if (penaltyStart >= 0 && !prefix && token.start > penaltyStart && token.end <= penaltyEnd) return; // is part of the penalty
    pieces.push(["space", line.slice(at, token.start)]);
    const penalty = token.start === penaltyStart && !prefix;
    const is = penalty ? "penalty" : kindOf(token, tokens[k - 1], tokens[k + 1], clause, language);
    at = penalty ? penaltyEnd : token.end;
    pieces.push([is, line.slice(token.start, at)]);
    if (is === "keyword") clause = token.text;
  });
  pieces.push(["space", line.slice(at)]);
  return joined(pieces);
}

/** @param {[PieceKind, string][]} pieces @returns {Piece[]} */
function joined(pieces) {
  return pieces.filter(([, text]) => text).map(([kind, text]) => ({ kind, text }));
}

/**
 * @param {Token} token @param {Token|undefined} before @param {Token|undefined} after
 * @param {string} clause  the last keyword before it
 * @param {Language} language
 * @returns {PieceKind}
 */
function kindOf({ kind, text }, before, after, clause, { names, words }) {
  if (kind === "quoted") {
    const starts = before && (before.text === "," || words.has(before.text) || CONTEXTUAL.has(before.text));
    return starts && !NO_LABEL_AFTER.has(clause) && after?.kind !== "regex" && names.has(unquote(text)) ? "label" : "quoted";
  }
  if (kind !== "word") return kind;
  if (CONNECTIVES.has(text)) return "connective";
  if (before?.text === "given") return "value";
  const listed = after?.kind === "quoted" || after?.text === "in" || after?.text === "among";
  if (after?.kind === "regex" || (listed && COLUMN_AFTER.has(clause))) return text === "tokens" ? "keyword" : "value";
  if (words.has(text)) return "keyword";
  if (CONTEXTUAL.has(text) && (!names.has(text) || NUMBER.test(before?.text ?? ""))) return "keyword";
  if (names.has(text)) return "label";
  if (NUMBER.test(text)) return "number";
  return text.startsWith("/") ? "open" : names.size ? "unknown" : "label";
}

const ESCAPED = /** @type {Object<string, string>} */ ({ "\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r" });
const MEANT = /** @type {Object<string, string>} */ ({ n: "\n", r: "\r" });

/** @param {string} text @returns {string} between quotation marks, on one line */
export function quote(text) {
  return `"${text.replace(/[\\"\n\r]/g, (c) => ESCAPED[c])}"`;
}

/** @param {string} quoted with its quotation marks @returns {string} what stands between them */
export function unquote(quoted) {
  return quoted.slice(1, -1).replace(/\\([^])/g, (_, c) => MEANT[c] ?? c);
}

/**
 * A name as it stands in a rule: between quotation marks unless it is a plain word.
 *
 * @param {string} name
 * @param {Language} language
 * @returns {string}
 */
export function shownName(name, { words }) {
  const plain = /^[^\s,()[\]"#/]+$/.test(name) && !words.has(name) && !CONTEXTUAL.has(name);
  return plain ? name : quote(name);
}
