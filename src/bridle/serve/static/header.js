/** The head of the page: the model's name, the link to this state, and the download of the rules. */

import { byId, debounce, fill, h } from "./dom.js";
import { isFilter } from "./filters.js";
import { fromFragment, isLink, toFragment } from "./state.js";
import { keptState } from "./storage.js";

const LONGEST = 60_000; // characters of a fragment that is kept in the address bar

/**
 * Put the state into the address bar; what is too long for it is left out, so that no older state stays there.
 *
 * @param {import("./state.js").State} state
 * @returns {Promise<string>} what was left out, in words; "" if nothing was
 */
async function writeAddress(state) {
  const whole = await toFragment(state);
  const some = whole.length <= LONGEST ? whole : await toFragment(state, false);
  const fits = some.length <= LONGEST;
  history.replaceState(null, "", fits ? some : location.pathname + location.search);
  if (!fits) return " The rules are too long for the address bar: download them instead.";
  return some === whole ? "" : " The text is too long for the address bar; the link holds the rules only.";
}

/**
 * @param {import("./state.js").Store} store
 * @param {(text: string) => void} say
 */
export function setUpHeader(store, say) {
  store.subscribe((state, changed) => {
    if (!changed.has("model") || !state.model) return;
    const { name, version } = state.model;
    fill(byId("model-name"), name, version ? ` · version ${version}` : "");
    document.title = `Bridle explorer: ${name}`;
  });
  byId("permalink").addEventListener("click", async () => {
    const missing = await writeAddress(store.get());
    const left = missing || (store.get().data && !store.get().data?.sample ? " The link holds the text that is shown, not your file." : "");
    try {
      await navigator.clipboard.writeText(location.href);
      say(`Link copied.${left}`);
      byId("permalink").textContent = "Link copied";
      setTimeout(() => fill(byId("permalink"), "Copy link"), 2000);
    } catch {
      say(`The link is in the address bar; copy it from there.${left}`);
    }
  });
  byId("download").addEventListener("click", () => {
    const url = URL.createObjectURL(new Blob([store.get().rules], { type: "text/plain" }));
    h("a", { href: url, download: "explorer.rules" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    say("The rules were saved as explorer.rules.");
  });
  byId("skip").addEventListener("click", (/** @type {any} */ event) => {
    event.preventDefault(); // the fragment of the address holds the state
    byId("result").focus();
  });
}

/**
 * Keep the state in the address bar, so that nothing is lost when the page is loaded again.
 *
 * @param {import("./state.js").Store} store
 */
export function keepAddress(store) {
  const keep = debounce(() => writeAddress(store.get()), 400);
  store.subscribe((state, changed) => {
    if (state.model && ["text", "rules", "index", "data", "filter"].some((key) => changed.has(key))) keep();
  });
}

/**
 * Set the state that the address holds, or else the one that the browser has kept.
 *
 * @param {import("./state.js").Store} store
 * @param {() => Promise<void>} loadSample
 * @param {() => void} damaged called if the address holds a state that cannot be read
 * @returns {Promise<string|undefined>} rules that the browser has kept, and that are changes of others than the present ones
 */
export async function restore(store, loadSample, damaged) {
  const linked = isLink(location.hash);
  const model = store.get().model;
  const kept = linked ? await fromFragment(location.hash) : model && await keptState(store.get());
  if (!kept && linked) damaged();
  if (!kept || !model) return undefined;
  store.set({ rules: kept.rules ?? store.get().file?.text ?? model.rules });
  if (kept.sample === undefined || !model.sample) {
    store.set({ text: kept.text ?? store.get().text, index: -1 });
    return kept.unsaved;
  }
  if (!store.get().data?.sample) await loadSample();
  const count = store.get().data?.sequences.length ?? 0;
  const filter = isFilter(kept.filter ?? "") ? kept.filter : "all";
  store.set({ text: kept.text ?? store.get().text, index: Math.min(Math.trunc(kept.sample), count - 1), filter });
  return kept.unsaved;
}
