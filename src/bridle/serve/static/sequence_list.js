/** The list of the sequences of the data: filter, search, order, and for each one how many tokens are wrong. */

import { byId, debounce, fill, h } from "./dom.js";
import { filtersFor, listed, nameOf, numbersOf } from "./filters.js";
import { counted } from "./words.js";

const AT_ONCE = 100; // sequences that are listed before the user asks for more
const LONGEST = 90; // characters of a sequence

/** @param {import("./state.js").Store} store */
export function createSequenceList(store) {
  const [list, filter, sort, search, details] = ["sequences", "filter", "sort", "search", "browse"].map(byId);
  let most = AT_ONCE;

  filter.addEventListener("change", () => {
    store.set({ filter: filter.value });
    const numbers = listed(store.get());
    if (numbers.length && !numbers.includes(store.get().index)) store.set({ index: numbers[0] });
  });
  sort.addEventListener("change", () => store.set({ sort: sort.value }));
  search.addEventListener("input", debounce(() => store.set({ search: search.value.trim() }), 120, 300));
  details.addEventListener("toggle", () => draw(store.get()));
  details.open = window.matchMedia("(min-width: 800px)").matches;

  /** @param {import("./state.js").State} state */
  function draw(state) {
    if (!state.data) return;
    drawFilters(state);
    if (!details.open) return;
    const numbers = listed(state), { sequences } = state.data, { errors, errors_without: before } = state.evaluation ?? {};
    const total = sequences.length;
    fill(byId("list-count"), numbers.length === total ? counted(total, "sequence") : `${numbers.length.toLocaleString("en")} of ${counted(total, "sequence")}`);
    const top = list.scrollTop;
    most = Math.max(most, numbers.indexOf(state.index) + 10); // the one that is shown is among them
    fill(list, numbers.slice(0, most).map((k) => h("li", {}, h("button", {
      type: "button", "aria-current": k === state.index ? "true" : null, "data-k": k, onclick: () => store.set({ index: k }),
    }, h("span", { class: "words", dir: "auto" }, shortened(sequences[k])), badge(errors?.[k], before?.[k])))),
    numbers.length > most ? h("li", {}, h("button", { type: "button", class: "more", onclick: () => { most += 5 * AT_ONCE; draw(store.get()); } }, "Show more")) : null,
    numbers.length ? null : h("li", { class: "dim" }, "No sequence is like this."));
    list.scrollTop = top;
  }

  /** @param {import("./state.js").State} state */
  function drawFilters(state) {
    const options = filtersFor(state).map((key) => {
      const numbers = numbersOf(state, key);
      return { key, text: nameOf(state, key) + (numbers && state.evaluation ? ` (${numbers.length})` : "") };
    });
    if (filter.options.length !== options.length || options.some(({ key }, k) => filter.options[k].value !== key)) {
      fill(filter, options.map(({ key, text }) => h("option", { value: key }, text)));
    }
    options.forEach(({ text }, k) => { if (filter.options[k].textContent !== text) filter.options[k].textContent = text; });
    filter.value = state.filter;
    sort.value = state.sort;
    if (document.activeElement !== search && search.value !== state.search) search.value = state.search;
    for (const option of sort.options) option.disabled = option.value !== "order" && !state.data?.has_gold;
  }

  /** Mark the sequence that is shown. @param {number} index */
  function mark(index) {
    list.querySelector("[aria-current]")?.removeAttribute("aria-current");
    const button = list.querySelector(`[data-k="${index}"]`);
    button?.setAttribute("aria-current", "true");
    if (!button || list.contains(document.activeElement)) return;
    const [box, frame] = [button.getBoundingClientRect(), list.getBoundingClientRect()];
    if (box.top < frame.top) list.scrollTop -= frame.top - box.top; // scrollIntoView would scroll the page, too
    else if (box.bottom > frame.bottom) list.scrollTop += box.bottom - frame.bottom;
  }

  store.subscribe((state, changed) => {
    if (changed.has("data")) most = AT_ONCE;
    if (changed.has("browse") && state.browse) {
      details.open = true;
      byId("text-pane").scrollIntoView({ block: "nearest" });
    }
    if (["data", "evaluation", "filter", "sort", "search"].some((key) => changed.has(key))) draw(state);
    else if (changed.has("index")) mark(state.index);
    if (["data", "filter", "sort", "search"].some((key) => changed.has(key))) mark(state.index);
  });
}

/** @param {import("./state.js").Sequence} sequence @returns {string} */
function shortened({ tokens, text: known }) {
  if (known !== undefined) return known.length > LONGEST ? `${known.slice(0, LONGEST)} …` : known;
  let text = "";
  for (const token of tokens) {
    if (text.length > LONGEST) return `${text} …`;
    text += (text && " ") + token;
  }
  return text;
}

/** @param {number|undefined} wrong tokens @param {number|undefined} before without rules @returns {any} */
function badge(wrong, before) {
  if (wrong === undefined || before === undefined) return null;
  const gain = before - wrong;
  return h("span", { class: "badge" },
    gain ? h("span", { class: gain > 0 ? "good" : "bad", title: `Tokens that the rules ${gain > 0 ? "repaired" : "made wrong"}` }, gain > 0 ? `${gain} repaired` : `${-gain} made wrong`) : null,
    wrong ? h("span", { title: "Tokens that are wrong with rules" }, `${wrong} wrong`) : h("span", { class: "good" }, "all right"));
}
