"""The explorer in a browser: colours, sizes, the keyboard, and texts that try to be more than text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="browser tests need the package playwright").expect
expect.set_options(timeout=15_000)  # milliseconds; a machine under load is slow


def sample(page: Any) -> None:
    """Show the first sequence of the sample."""
    page.locator("#browse").evaluate("list => { list.open = true; }")
    page.locator("#sequences button").first.evaluate("button => button.click()")
    expect(page.locator("#position")).to_contain_text("1 of ")


SCRIPT = "<script>window.hacked=1</script>"
IMAGE = "<img src=x onerror=window.hacked=1>"

# Texts whose contrast with what is behind them is too low: [text, colour, background, ratio]. WCAG 2, level AA: 4.5,
# or 3 for large texts. The background is made of all layers behind the text, each over the one below it.
CONTRAST = """
() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const context = canvas.getContext("2d", {willReadFrequently: true});
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = (top, below) => [0, 1, 2].map((k) => top[k] * top[3] + below[k] * (1 - top[3]));
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
    return layers.reduceRight((below, top) => over(top, below), [255, 255, 255]);
  };
  const light = (c) => c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const found = [];
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement, style = getComputedStyle(element);
    if (!node.data.trim() || !element.checkVisibility({visibilityProperty: true})) continue;
    if (element.closest("[aria-disabled=true], [disabled], .unseen, script, noscript, option")) continue;
    const colour = rgba(style.webkitTextFillColor || style.color);
    if (colour[3] === 0) continue;  // the text of a field whose highlighted layer is what one sees
    const back = behind(element), contrast = ratio(over(colour, back), back);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 600);
    seen += 1;
    if (contrast >= (large ? 3 : 4.5)) continue;
    found.push([node.data.trim().slice(0, 40), style.color, back.map(Math.round).join(), contrast.toFixed(2)]);
  }
  return {seen, found};
}
"""

OVERFLOW = """
() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")]
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".wide, .picture"))
  .map((e) => `${e.tagName} ${e.id} ${e.className}`)
"""

SWATCHES = """
() => {
  for (let k = 0; k < 12; k += 1) {
    const [segment, tag, not] = ["span", "b", "i"].map((name) => document.createElement(name));
    tag.className = "tag"; tag.textContent = `TYPE ${k}`; not.className = "not"; not.textContent = "≠ DATE";
    segment.className = `segment type-${k}`; segment.append(tag, " text ", not);
    document.getElementById("constrained").append(segment);
  }
}
"""

OUTLINED = """
() => {
  const focused = document.activeElement, around = [focused, focused.nextElementSibling];
  for (let e = focused.parentElement; e && !e.matches(".pane"); e = e.parentElement) around.push(e);
  return around.some((e) => e && getComputedStyle(e).outlineStyle !== "none");
}
"""

UNNAMED = """
() => [...document.querySelectorAll("button, select, textarea, input")].filter((e) => e.checkVisibility()
  && !(e.textContent.trim() || e.ariaLabel || e.getAttribute("aria-labelledby") || e.labels?.length || e.title))
  .map((e) => e.outerHTML)
"""


@pytest.mark.parametrize(
    ("width", "height", "dark"),
    [(1280, 800, False), (1280, 800, True), (900, 800, False), (390, 844, False), (390, 844, True)],
    ids=["wide", "wide-dark", "tablet", "phone", "phone-dark"],
)
def test_everything_fits_and_can_be_read(open_page: Any, width: int, height: int, dark: bool) -> None:
    page = open_page(width=width, height=height, dark=dark)
    page.fill("#rules", page.input_value("#rules") + "forbid PAGES\nno duplicate of\n")
    expect(page.locator("#findings .error")).to_be_visible()
    assert page.evaluate(CONTRAST)["found"] == []
    page.fill("#rules", page.input_value("#rules").replace("no duplicate of\n", ""))
    sample(page)
    expect(page.locator("#figures")).to_contain_text("hurts")
    page.select_option("#filter", "worse")
    page.get_by_role("button", name="Show the trellis").click()
    expect(page.locator("#trellis img")).to_be_visible()
    page.get_by_text("As a table").click()
    page.evaluate(SWATCHES)
    assert page.evaluate(OVERFLOW) == []
    contrast = page.evaluate(CONTRAST)
    assert contrast["found"] == []
    assert contrast["seen"] > 200
    panes = [page.locator(name).bounding_box() for name in ("#text-pane", "#rules-pane", "#result")]
    side_by_side = panes[0]["y"] == panes[1]["y"] == panes[2]["y"]
    assert side_by_side == (width >= 1150)
    if width < 800:
        assert panes[0]["x"] == panes[1]["x"] == panes[2]["x"]


def test_the_contrast_check_finds_pale_text(page: Any) -> None:
    page.evaluate("document.getElementById('proof').style.color = '#9a9a9a'")
    assert page.evaluate(CONTRAST)["found"]


def test_keyboard_alone(page: Any) -> None:
    page.evaluate("document.activeElement.blur()")
    seen: list[str] = []
    for _ in range(7):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        assert page.evaluate(OUTLINED), seen[-1]
    order = ["skip", "undo", "redo", "open", "permalink", "download", "API"]
    assert seen[: len(order)] == order
    page.focus("#sequences button")
    page.keyboard.press("Enter")
    expect(page.locator("#position")).to_contain_text("1 of ")
    page.focus("#next")
    page.keyboard.press("Space")
    expect(page.locator("#position")).to_contain_text("2 of ")
    page.focus("#filter")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#filter")).to_have_value("wrong")
    page.focus("#trellis button")
    page.keyboard.press("Enter")
    expect(page.locator("#trellis img")).to_be_visible()
    assert page.evaluate("document.activeElement.textContent") == "Hide the trellis"


def test_colours_and_marks_have_words(page: Any) -> None:
    assert page.locator("#constrained .segment").count() == page.locator("#constrained .segment > .tag").count() > 3
    assert page.locator("#constrained .changed").count() > 0
    assert page.locator("#constrained .was").count() > 0
    assert page.locator("#status").get_attribute("aria-live") == "polite"
    assert page.evaluate(UNNAMED) == []


def test_injected_text_and_rules_stay_text(page: Any) -> None:
    page.fill("#text", f"{SCRIPT} {IMAGE} 1984.")
    expect(page.locator("#constrained")).to_contain_text("hacked")
    page.fill("#rules", f"present TITLE\nfix O at tokens /{SCRIPT}/\nlabel {IMAGE}\n")
    expect(page.locator("#stale")).to_be_visible()
    page.fill("#rules", f"present TITLE  # {IMAGE}\nfix DATE at tokens /<.*|hacked/\n")
    expect(page.locator("#stale")).to_be_hidden()
    expect(page.locator("#effects")).to_contain_text("/<.*|hacked/")
    page.get_by_role("button", name="Show the trellis").click()
    expect(page.locator("#trellis img")).to_be_visible()
    safe(page)


def test_injected_data_stays_text(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "<img src=x onerror=hacked=1>.jsonl"
    rows = [{"id": IMAGE, "tokens": [SCRIPT, IMAGE, "1984"], "labels": ["AUTHOR", IMAGE, "DATE"]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    page.set_input_files("#open", path)
    expect(page.locator("#gold-labels")).to_contain_text(SCRIPT)
    expect(page.locator("#gold-labels .tag").nth(1)).to_have_text(IMAGE)
    expect(page.locator("#constrained")).to_contain_text(SCRIPT)
    expect(page.locator("#data-name")).to_contain_text("<img")
    expect(page.locator(".figures tbody tr").first).to_be_visible()
    safe(page)


def safe(page: Any) -> None:
    """Nothing of what was injected has become an element."""
    assert page.evaluate("window.hacked") is None
    assert page.locator("img:not([src^='data:'])").count() == 0
    assert page.locator("body script").count() == 0
