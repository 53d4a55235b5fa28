/**
 * A text field for rules: a real <textarea> whose letters are transparent, over a layer with the same text in colours.
 *
 * Both lie in one cell of a grid. The layer gives the cell its height and the box around them scrolls, so they cannot
 * drift apart.
 *
 * @typedef {import("./language.js").Language} Language
 * @typedef {import("./layer.js").Finding} Finding
 * @typedef {Object} Editor
 * @property {HTMLTextAreaElement} field
 * @property {() => string} text
 * @property {(text: string, group?: string) => void} setText   undoable; changes of one group are undone together
 * @property {(text: string) => void} reset   begin with a text: nothing can be undone
 * @property {(language: Language) => void} setLanguage
 * @property {(findings: Finding[]) => void} setFindings
 * @property {(line: number) => void} goTo   show, select and focus a line
 * @property {() => number} unfinished   the line that is being typed, 0 if there is none
 * @property {() => void} undo
 * @property {() => void} redo
 */
import { complete } from "./completions.js";
import { fill, h } from "./dom.js";
import { createHistory, difference } from "./history.js";
import { createLayer, describeFindings } from "./layer.js";
import { createPopup } from "./popup.js";
import { toggleComments } from "./rules_text.js";

export const PAUSE = 1000; // milliseconds without a letter after which a line is as it was meant

/**
 * @param {Element} root   the editor is appended to it
 * @param {{value?: string, onChange?: (text: string) => void, onFix?: (finding: Finding) => void, label?: string}} [how]
 *   onFix: Ctrl+. was pressed on a line with a quick fix
 * @returns {Editor}
 */
export function createEditor(root, { value = "", onChange = () => {}, onFix = () => {}, label = "Rules" } = {}) {
  /** @type {Language|null} */
  let language = null;
  let typed = -Infinity; // when a letter was typed last
  let announcedLine = 0; // the line whose findings were announced last
  const history = createHistory(value);
  const layer = createLayer();

  const field = h("textarea", {
    id: "rules", "aria-label": label, "aria-describedby": "rules-help rules-message", dir: "ltr", value,
    spellcheck: "false", autocapitalize: "off", autocomplete: "off", autocorrect: "off", rows: 1, placeholder: "Write a rule, or press Ctrl+Space",
  });
  const tip = h("div", { class: "editor-tip", role: "tooltip", hidden: true });
  const message = h("p", { id: "rules-message", class: "unseen" }); // the findings below the editor are what is seen
  const help = h("p", { id: "rules-help", class: "unseen" },
    "Control and space: completions. Control and slash: comment. F8: next finding. Control and full stop: quick fix. Tab leaves the field.");
  const said = h("p", { class: "unseen", role: "status" });
  const popup = createPopup(field, { where: wordPlace, onChoose: take, tell: (text) => fill(said, text) });
  const scroller = h("div", { class: "editor-scroller" }, h("div", { class: "editor-cell" }, layer.element, field, tip));
  root.append(h("div", { class: "editor" }, scroller, popup.element, message, help, said));

  // ---- the cursor ----

  /** @param {number} at @returns {number} the line of a position, from 1 */
  function lineAt(at) {
    let line = 1;
    for (let k = field.value.indexOf("\n"); k >= 0 && k < at; k = field.value.indexOf("\n", k + 1)) line++;
    return line;
  }

  /** @param {number} line @returns {number} the position at which it begins */
  function startOf(line) {
    let at = 0;
    for (let k = 1; k < line; k++) at = field.value.indexOf("\n", at) + 1;
    return at;
  }

  /** The place where the word begins that is typed. */
  function wordPlace() {
    const line = lineAt(field.selectionEnd);
    const before = field.value.slice(startOf(line), field.selectionEnd);
    return layer.place(line, before.search(/[^\s,()[\]"#]*$/));
  }

  /** Mark the line of the cursor, and say what is wrong with it. (Also without focus: nothing moves when it goes.) */
  function followCursor() {
    const line = lineAt(field.selectionEnd);
    layer.setCurrent(line);
    const findings = layer.findingsAt(line);
    const hint = findings.some((finding) => finding.fix) ? " Quick fix: Ctrl+." : "";
    const text = findings.length ? `Line ${line}, ${describeFindings(findings).replace(/[^.?!]$/, "$&.")}${hint}` : "";
    if (message.textContent !== text) fill(message, text);
    if (line !== announcedLine && text) fill(said, text); // once, when the cursor comes to the line: not at every key
    announcedLine = line;
  }

  // ---- changes ----

  /** Put a text into the field as one replacement, so that cursor and scroll position stay. @param {string} text */
  function write(text) {
    const { at, removed, added } = difference(field.value, text);
    if (removed || added) field.setRangeText(added, at, at + removed.length, "preserve");
    layer.draw(text);
  }

  /** @param {string} [group] */
  function changed(group = "") {
    history.record(field.value, group);
    followCursor();
    onChange(field.value);
  }

  /** @param {string} text @param {number} from @param {number} to selected afterwards */
  function change(text, from, to) {
    write(text);
    field.setSelectionRange(from, to);
    changed();
  }

  /** @param {"undo"|"redo"} way */
  function travel(way) {
    const step = history[way]();
    if (!step) return;
    popup.close();
    write(step.text);
    field.setSelectionRange(step.at, step.at);
    if (document.activeElement === field) layer.line(lineAt(step.at))?.scrollIntoView({ block: "nearest" });
    followCursor();
    onChange(field.value);
  }

  // ---- completion ----

  /** @param {boolean} explicit by the user, not by typing */
  function propose(explicit) {
    const at = field.selectionEnd;
    const completion = language && field.selectionStart === at ? complete(field.value, at, language) : null;
    const inWord = /^[^\s,()[\]"#]/.test(field.value.slice(at));
    if (!completion || (!explicit && (!completion.typed || inWord))) return popup.close();
    const whole = completion.options.some((option) => option.insert.trim() === completion.typed);
    if (whole && !explicit && completion.options.length === 1) return popup.close();
    popup.show(completion.options, !whole);
  }

  /** @param {import("./completions.js").Option} option */
  function take(option) {
    const completion = language && complete(field.value, field.selectionEnd, language);
    popup.close();
    if (!completion) return;
    const rest = field.value.slice(completion.to);
    const insert = rest.startsWith(" ") ? option.insert.trimEnd() : option.insert;
    const [from, to] = option.select ?? [insert.length, insert.length];
    change(field.value.slice(0, completion.from) + insert + rest, completion.from + from, completion.from + to);
  }

  /** @param {KeyboardEvent} event @returns {boolean} was it a key for the list? */
  function popupKey(event) {
    if (!popup.isOpen() || event.ctrlKey || event.metaKey || event.altKey) return false;
    const { key } = event;
    if (key === "Escape") popup.close();
    else if (key === "ArrowDown" || key === "ArrowUp") popup.move(key === "ArrowDown" ? 1 : -1);
    else if (key === "Enter" && popup.chosen()) take(/** @type {any} */ (popup.chosen()));
    else if (key === "Tab" && !event.shiftKey) popup.chosen() ? take(/** @type {any} */ (popup.chosen())) : popup.move(1);
    else return false;
    return true;
  }

  /** @param {KeyboardEvent} event @returns {boolean} */
  function ownKey(event) {
    const control = (event.ctrlKey || event.metaKey) && !event.altKey;
    const key = event.key.toLowerCase();
    if (control && key === "z") travel(event.shiftKey ? "redo" : "undo");
    else if (control && key === "y") travel("redo");
    else if (event.ctrlKey && (event.code === "Space" || key === " ")) propose(true);
    else if (control && key === "/") comment();
    else if (control && key === ".") quickFix();
    else if (key === "f8") nextFinding(event.shiftKey ? -1 : 1);
    else return false;
    return true;
  }

  function quickFix() {
    const finding = layer.findingsAt(lineAt(field.selectionEnd)).find((finding) => finding.fix);
    if (finding) onFix(finding);
  }

  function comment() {
    const { selectionStart, selectionEnd } = field;
    const [first, last] = [lineAt(selectionStart), lineAt(selectionEnd)];
    const before = field.value;
    const after = toggleComments(before, first, last);
    const start = startOf(first);
    const end = selectionEnd + after.length - before.length;
    change(after, first === last ? Math.max(start, end) : start, Math.max(start, end));
  }

  /** @param {number} step */
  function nextFinding(step) {
    const marked = layer.marked();
    const current = lineAt(field.selectionEnd);
    const next = step > 0 ? marked.find((line) => line > current) ?? marked[0] : marked.findLast((line) => line < current) ?? marked.at(-1);
    if (next) goTo(next);
  }

  /** @param {number} line */
  function goTo(line) {
    const start = startOf(line);
    const end = field.value.indexOf("\n", start);
    field.focus({ preventScroll: true });
    field.setSelectionRange(start, end < 0 ? field.value.length : end);
    layer.line(line)?.scrollIntoView({ block: "nearest" });
    announcedLine = 0;
    followCursor();
  }

  // ---- events ----

  field.addEventListener("input", (/** @type {any} */ event) => {
    layer.draw(field.value);
    const typing = /^(insertText|insertCompositionText|deleteContentBackward)$/.test(event.inputType);
    const letter = typing && (event.data ?? "").length < 3;
    if (letter) typed = performance.now();
    changed(letter ? event.inputType : ""); // a letter, not a sentence that was dictated
    if (!event.isComposing && (event.inputType === "insertText" || (typing && popup.isOpen()))) propose(false);
    else popup.close();
  });
  field.addEventListener("beforeinput", (/** @type {InputEvent} */ event) => {
    if (event.inputType !== "historyUndo" && event.inputType !== "historyRedo") return;
    event.preventDefault();
    travel(event.inputType === "historyUndo" ? "undo" : "redo");
  });
  field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    if (event.key === "Escape") tip.hidden = true;
    if (popupKey(event) || ownKey(event)) event.preventDefault();
    else if (/^(Arrow(Left|Right)|Home|End|Page)/.test(event.key)) popup.close();
  });
  field.addEventListener("blur", () => popup.close());
  field.addEventListener("pointerdown", () => popup.close());
  for (const name of ["focus", "select", "keyup", "pointerup"]) field.addEventListener(name, followCursor);
  document.addEventListener("scroll", popup.place, true);
  window.addEventListener("resize", popup.place, true);

  scroller.addEventListener("mousemove", (/** @type {MouseEvent} */ event) => {
    const line = layer.lineUnder(event.clientY);
    const findings = layer.findingsAt(line);
    tip.hidden = !line || !findings.length;
    if (tip.hidden) return;
    fill(tip, describeFindings(findings));
    const over = /** @type {HTMLElement} */ (layer.line(line));
    tip.style.top = `${over.offsetTop + over.offsetHeight}px`;
  });
  scroller.addEventListener("mouseleave", () => { tip.hidden = true; });

  layer.draw(value);
  return {
    field,
    text: () => field.value,
    setText(text, group = "") {
      if (text === field.value) return;
      popup.close();
      write(text);
      history.record(field.value, group);
      followCursor();
    },
    reset(text) {
      write(text);
      history.reset(field.value);
      followCursor();
    },
    setLanguage(known) {
      language = known;
      layer.setLanguage(known);
    },
    setFindings(findings) {
      layer.setFindings(findings);
      tip.hidden = true;
      followCursor();
    },
    goTo,
    unfinished: () => (performance.now() - typed < PAUSE ? lineAt(field.selectionEnd) : 0),
    undo: () => travel("undo"),
    redo: () => travel("redo"),
  };
}
