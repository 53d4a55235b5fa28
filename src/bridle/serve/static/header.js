/** The head of the page: the model's name, the link to this state, and the download of the rules. */

import { byId, debounce, fill, h } from "./dom.js";
import { fromFragment, toFragment } from "./state.js";

const LONGEST = 8000; // characters of a fragment that is kept in the address bar while the user types

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
    history.replaceState(null, "", await toFragment(store.get()));
    const left = store.get().data && !store.get().data?.sample ? " The link holds the text that is shown, not your file." : "";
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
}

/**
 * Keep the state in the address bar, so that nothing is lost when the page is loaded again.
 *
 * @param {import("./state.js").Store} store
 */
export function keepAddress(store) {
  const keep = debounce(async () => {
    const fragment = await toFragment(store.get());
    if (fragment.length <= LONGEST) history.replaceState(null, "", fragment);
  }, 400);
  store.subscribe((state, changed) => {
    if (state.model && ["text", "rules", "index", "data", "filter"].some((key) => changed.has(key))) keep();
  });
}

/**
 * Set the state that the address holds, if it holds one.
 *
 * @param {import("./state.js").Store} store
 * @param {() => Promise<void>} loadSample
 */
export async function restore(store, loadSample) {
  const kept = await fromFragment(location.hash);
  const model = store.get().model;
  if (!kept || !model) return;
  store.set({ rules: kept.rules ?? model.rules });
  if (kept.sample === undefined || !model.sample) {
    store.set({ text: kept.text ?? store.get().text, index: -1 });
    return;
  }
  if (!store.get().data?.sample) await loadSample();
  const count = store.get().data?.sequences.length ?? 0;
  const filter = ["changed", "broken", "worse"].includes(kept.filter) ? kept.filter : "all";
  store.set({ text: kept.text ?? store.get().text, index: Math.min(Math.trunc(kept.sample), count - 1), filter });
}
