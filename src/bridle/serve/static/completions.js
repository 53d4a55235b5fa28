/**
 * How a line of a .rules file can go on at the cursor: sentences of rules, the words that follow, labels.
 *
 * The sentences come from the server, as words and slots: "at most {k} segments of {labels}". What fills a slot is
 * seen in the example of the sentence. The tokens before the cursor are matched with all sentences; the next piece of
 * those that fit is proposed.
 *
 * @typedef {import("./language.js").Language} Language
 * @typedef {import("./language.js").Token} Token
 * @typedef {{text: string, detail: string, kind: "sentence"|"word"|"label", insert: string,
 *            select?: [number, number]}} Option   select: what is selected then, in `insert`
 * @typedef {{from: number, to: number, typed: string, options: Option[]}} Completions   from and to: what is replaced
 * @typedef {{slot: string, like: string}|string} Part   of a sentence: a word, or a slot and what fills it
 * @typedef {{parts: Part[], sentence: string, example: string, summary: string}} Template
 */
import { CONNECTIVES, shownName, tokensOf } from "./language.js";

const MOST = 60; // options
const UNITS = ["segment", "segments", "token", "tokens"];
const PLACES = ["tokens /…/", 'tokens among "…"', "first token", "last token", "given "];

/** @type {WeakMap<Language, Template[]>} */
const known = new WeakMap();

/** @param {Language} language @returns {Template[]} */
function templatesOf(language) {
  const templates = known.get(language) ?? language.sentences.map((sentence) => ({ ...sentence, parts: partsOf(sentence.sentence, sentence.example) }));
  known.set(language, templates);
  return templates;
}

const PIECE = /\{[^}]*\}|[^\s{}]+/g;

/** @param {string} sentence @param {string} example @returns {Part[]} */
function partsOf(sentence, example) {
  const values = slotsIn(sentence, example).map(([from, to]) => example.slice(from, to));
  let at = 0;
  return (sentence.match(PIECE) ?? []).map((piece) => (piece.startsWith("{") ? { slot: piece, like: likeness(values[at++] ?? "") } : piece));
}

/** Where the example fills the slots of its sentence. @param {string} sentence @param {string} example @returns {[number, number][]} */
function slotsIn(sentence, example) {
  const source = (sentence.match(PIECE) ?? []).map((piece) =>
    (piece.startsWith("{") ? "(.+?)" : UNITS.includes(piece) ? "\\S+" : piece.replace(/[^\w\s]/g, "\\$&")));
  return /** @type {any} */ (new RegExp(`^${source.join("\\s*")}$`, "d").exec(example))?.indices.slice(1) ?? [];
}

/** @param {string} value @returns {string} what kind of slot it fills */
function likeness(value) {
  if (/^\d+$/.test(value)) return "number";
  if (/^(segment|token)s?$/.test(value)) return "unit";
  if (value.startsWith('"')) return "quoted";
  return /^(tokens|given|first token|last token|-?\d)/.test(value) ? "place" : "names";
}

/**
 * What can stand at the cursor.
 *
 * @param {string} text
 * @param {number} at   the cursor
 * @param {Language} language
 * @returns {Completions|null}  null in comments, quotations and expressions
 */
export function complete(text, at, language) {
  const head = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  const tokens = tokensOf(head);
  const last = tokens.at(-1);
  if (last?.kind === "comment" || last?.kind === "open") return null;
  const partial = last?.kind === "word" && last.end === head.length ? last.text : "";
  if (partial.startsWith("/") || (!partial && last && last.end === head.length && last.kind !== "mark")) return null;
  const before = partial ? tokens.slice(0, -1) : tokens;
  const rest = /^[^\s,()[\]"#]*/.exec(text.slice(at))?.[0] ?? "";
  const options = ranked(proposals(before, language), partial);
  return options.length ? { from: at - partial.length, to: at + rest.length, typed: partial, options } : null;
}

/** @param {Token[]} tokens before the word that is typed @param {Language} language @returns {Option[]} */
function proposals(tokens, language) {
  const opened = tokens.findLastIndex((token) => token.text === "[");
  if (opened >= 0) return words(tokens.length - opened === 1 ? ["penalty "] : tokens.length - opened > 2 ? ["per violation]", "per sequence]"] : []);
  if (tokens[0]?.text === "example") {
    if (tokens.length === 2) return words(["has ", "is "]);
    return tokens.length > 2 && (tokens.length === 3 || tokens.at(-1)?.text === ",") ? names(language) : [];
  }
  if (tokens.at(-1)?.text === ")") return words(["and ", "or ", "implies ", "iff ", "[penalty 1]"]);
  const cut = tokens.findLastIndex((token) => token.text === "(" || (token.kind === "word" && CONNECTIVES.has(token.text)));
  const rule = tokens.slice(cut + 1);
  if (!rule.length) {
    const fits = templatesOf(language).filter(({ sentence }) => !tokens.length || !/^example|\[penalty/.test(sentence));
    return [...fits.map(sentenceOption), ...names(language)];
  }
  /** @type {Option[]} */
  const matches = [];
  for (const template of templatesOf(language)) if (!/^example|\{rule\}/.test(template.sentence)) follow(template, 0, rule, 0, language, matches);
  return matches;
}

/**
 * Match tokens with the parts of a sentence, and collect what can follow the last token.
 *
 * @param {Template} template @param {number} i  the next part
 * @param {Token[]} tokens @param {number} j  the next token
 * @param {Language} language @param {Option[]} matches
 */
function follow(template, i, tokens, j, language, matches) {
  const part = template.parts[i];
  if (part === undefined) {
    if (j === tokens.length) matches.push(...words(["[penalty 1]", "and ", "or ", "implies ", "iff "]));
  } else if (j === tokens.length) {
    matches.push(...next(template, i, language));
  } else if (typeof part === "string") {
    if (sameWord(tokens[j].text, part)) follow(template, i + 1, tokens, j + 1, language, matches);
  } else if (part.like === "names") {
    for (let end = j; ; end += 2) {
      if (end === tokens.length) return void matches.push(...names(language));
      const { kind, text } = tokens[end];
      if (kind !== "quoted" && (kind !== "word" || (language.words.has(text) && text !== "given"))) return;
      if (text === "given" && ++end >= tokens.length) return;
      follow(template, i + 1, tokens, end + 1, language, matches);
      if (tokens[end + 1]?.text !== ",") return;
    }
  } else if (part.like === "place") {
    for (let end = j + 1; end <= tokens.length; end++) {
      const { kind, text } = tokens[end - 1];
      const whole = kind !== "word" || text === "token" || /\d/.test(text) || tokens[end - 2]?.text === "given";
      if (whole) follow(template, i + 1, tokens, end, language, matches);
    }
    const before = tokens.at(-1);
    if (before?.kind === "regex") matches.push(...words(["after tokens /…/", "before tokens /…/"]));
    if (before?.text === "tokens") matches.push(...words(["/…/", 'among "…"']));
    if (/^(after|before)$/.test(before?.text ?? "")) matches.push(...words(PLACES.slice(0, -1)));
  } else {
    follow(template, i + 1, tokens, j + 1, language, matches);
  }
}

/** What begins a part of a sentence. @param {Template} template @param {number} i @param {Language} language @returns {Option[]} */
function next(template, i, language) {
  const part = template.parts[i];
  if (typeof part !== "string") {
    if (part.like === "names") return names(language);
    return words({ number: ["1 ", "2 ", "3 "], unit: UNITS.map((unit) => `${unit} `), place: PLACES, quoted: ['"…"'] }[part.like] ?? []);
  }
  const slot = template.parts.findIndex((part, k) => k > i && typeof part !== "string");
  const phrase = template.parts.slice(i, slot < 0 ? undefined : slot).join(" ");
  return [{ ...words([phrase + (slot < 0 ? "" : " ")])[0], detail: template.sentence }];
}

/** @param {string} typed @param {string} word @returns {boolean} */
function sameWord(typed, word) {
  return typed === word || (UNITS.includes(word) && UNITS.includes(typed));
}

/** @param {Template} template @returns {Option} the example, with what fills the first slot selected */
function sentenceOption({ sentence, example, summary }) {
  const select = slotsIn(sentence, example)[0] ?? [example.length, example.length];
  return { text: sentence, detail: summary, kind: "sentence", insert: example, select };
}

/** @param {Language} language @returns {Option[]} */
function names(language) {
  return language.labels.map((name) => ({ text: name, detail: "label", kind: "label", insert: shownName(name, language) }));
}

/** @param {string[]} texts "…" is selected @returns {Option[]} */
function words(texts) {
  return texts.map((text) => {
    const hole = text.indexOf("…");
    const insert = text.replace("…", "");
    return { text: text.trim(), detail: "", kind: "word", insert, ...(hole >= 0 && { select: [hole, hole] }) };
  });
}

/** Those that begin with what is typed, then those that contain it. @param {Option[]} options @param {string} typed @returns {Option[]} */
function ranked(options, typed) {
  const low = typed.toLowerCase();
  const seen = new Set();
  const unique = options.filter(({ text }) => !seen.has(text) && seen.add(text));
  const begins = unique.filter(({ text }) => text.toLowerCase().startsWith(low))
    .sort((a, b) => Number(b.text.startsWith(typed)) - Number(a.text.startsWith(typed))); // as it is typed first
  const contains = low ? unique.filter((option) => inside(option, low)) : [];
  return [...begins, ...contains].slice(0, MOST);
}

/** @param {Option} option @param {string} low @returns {boolean} sentences: at the beginning of a later word */
function inside({ text, kind }, low) {
  if (kind !== "sentence") return text.toLowerCase().indexOf(low) > 0;
  return text.replace(/\{[^}]*\}/g, "").split(/\s+/).slice(1).some((word) => word.startsWith(low)) && !text.startsWith(low);
}
