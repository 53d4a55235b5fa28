/** What the browser keeps of the page, so that closing it, or stopping the server, loses nothing. */

import { debounce } from "./dom.js";
import { fromFragment, toFragment } from "./state.js";

const WAIT = 300; // milliseconds without a change

/** @param {import("./state.js").State} state @returns {string} */
const keyOf = (state) => `bridle explorer ${state.model?.name} ${state.model?.rules_file ?? ""}`;

/** @param {import("./state.js").State} state @returns {string} the rules that were opened: kept ones are changes of these */
const opened = (state) => state.file?.text ?? state.model.rules;

/** @param {import("./state.js").Store} store */
export function keepState(store) {
  const keep = debounce(async () => {
    const state = store.get();
    try {
      localStorage.setItem(keyOf(state), JSON.stringify({ of: opened(state), state: await toFragment(state) }));
    } catch {
      // no storage, or it is full: the address still holds the state
    }
  }, WAIT);
  store.subscribe((state, changed) => {
    if (state.model && ["text", "rules", "index", "data", "filter", "file"].some((key) => changed.has(key))) keep();
  });
}

/**
 * What was kept when the page was closed. If the file or the rules of the server are others now, `rules` are left out, and
 * `unsaved` has what was changed and not saved.
 *
 * @param {import("./state.js").State} state
 * @returns {Promise<any>} as of `fromFragment`, and perhaps `unsaved`; null: nothing was kept
 */
export async function keptState(state) {
  try {
    const kept = JSON.parse(localStorage.getItem(keyOf(state)) ?? "null");
    const found = kept && await fromFragment(kept.state);
    if (!found || kept.of === opened(state)) return found;
    const { rules, ...rest } = found;
    return rules === undefined || rules === kept.of || rules === opened(state) ? rest : { ...rest, unsaved: rules };
  } catch {
    return null;
  }
}
