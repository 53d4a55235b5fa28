/**
 * The list of completions beside the cursor of a text field. The field keeps the focus; the list is a listbox whose
 * chosen option the field names in aria-activedescendant.
 *
 * @typedef {import("./completions.js").Option} Option
 * @typedef {{left: number, top: number, bottom: number}} Place   of the cursor, in the window
 * @typedef {Object} Popup
 * @property {() => boolean} isOpen
 * @property {() => Option|null} chosen
 * @property {(options: Option[], first: boolean) => void} show   first: choose the first one
 * @property {() => void} close
 * @property {(step: number) => void} move
 * @property {() => void} place   put it beside the cursor
 */
import { fill, h } from "./dom.js";

const MARGIN = 8; // pixels to the edge of the window

/**
 * @param {HTMLTextAreaElement} field
 * @param {{where: () => Place|null, onChoose: (option: Option) => void, tell: (text: string) => void}} how
 *   where: the cursor; tell: say something to people who do not see the list
 * @returns {Popup & {element: HTMLElement}}
 */
export function createPopup(field, { where, onChoose, tell }) {
  const id = `${field.id}-completions`;
  const list = h("ul", { id, class: "completions", role: "listbox", "aria-label": "Completions", hidden: true });
  /** @type {Option[]} */
  let options = [];
  let at = -1;

  field.setAttribute("aria-autocomplete", "list");
  field.setAttribute("aria-haspopup", "listbox");
  list.addEventListener("pointerdown", (/** @type {Event} */ event) => event.preventDefault()); // the field keeps the focus
  list.addEventListener("click", (/** @type {any} */ event) => {
    const k = [...list.children].indexOf(event.target.closest("li"));
    if (k >= 0) onChoose(options[k]);
  });

  const choose = (/** @type {number} */ k) => {
    list.children[at]?.setAttribute("aria-selected", "false");
    at = k;
    const item = list.children[at];
    item?.setAttribute("aria-selected", "true");
    item?.scrollIntoView({ block: "nearest" });
    if (item) field.setAttribute("aria-activedescendant", item.id);
    else field.removeAttribute("aria-activedescendant");
  };

  const place = () => {
    if (list.hidden) return;
    const cursor = where();
    if (!cursor) return;
    const { offsetWidth: width, offsetHeight: height } = list;
    const below = cursor.bottom + height + MARGIN <= innerHeight || cursor.top < height + MARGIN;
    list.style.left = `${Math.max(MARGIN, Math.min(cursor.left, innerWidth - width - MARGIN))}px`;
    list.style.top = `${below ? cursor.bottom : cursor.top - height}px`;
  };

  return {
    element: list,
    isOpen: () => !list.hidden,
    chosen: () => options[at] ?? null,
    place,
    show(shown, first) {
      options = shown;
      at = -1;
      fill(list, options.map((option, k) => h("li", { role: "option", id: `${id}-${k}`, "aria-selected": "false", class: option.kind },
        h("span", { class: "what" }, option.text), option.detail && h("small", {}, option.detail))));
      if (list.hidden) tell(`${options.length === 1 ? "1 completion" : `${options.length} completions`}; arrow keys to choose, Enter to take, Escape to close`);
      list.hidden = false;
      field.setAttribute("aria-controls", id);
      choose(first ? 0 : -1);
      list.scrollTop = 0;
      place();
    },
    close() {
      if (list.hidden) return;
      list.hidden = true;
      options = [];
      choose(-1);
      field.removeAttribute("aria-controls");
      tell("");
    },
    move(step) {
      choose(at < 0 && step < 0 ? options.length - 1 : (at + step + options.length) % options.length);
    },
  };
}
