"""The rule editor of the explorer in a browser: completions, comments, and the layer in colours behind the text."""

from __future__ import annotations

from typing import Any

import pytest

from tests.heavy.explorer.rule_fields import at_end, expect, lines_of, rules_of, write

ODD = "\n".join(
    [
        "# a long line that has to be wrapped: " + "word " * 40 + "   ",
        "present\tAUTHOR\t\t# tabs\there",
        "",
        "# שלום עולם مرحبا بالعالم 🦄👩‍👩‍👧 日本語のテキスト é",
        "# " + "unbroken" * 30,
        r"fix DATE at tokens /(19|20)\d\d/       [penalty 3]   # four digits are a year, mostly",
        "   ",
        "",
    ]
)
MEASURE = """() => {
    const field = document.querySelector("#rules"), layer = document.querySelector(".layer");
    const codes = [...layer.querySelectorAll(".code")];
    const place = (one) => {
        const box = one.getBoundingClientRect(), style = getComputedStyle(one);
        const left = box.left + parseFloat(style.paddingLeft), right = box.right - parseFloat(style.paddingRight);
        return [left, right, style.font, style.tabSize, style.whiteSpace, style.letterSpacing];
    };
    const height = field.clientHeight;
    field.style.height = "0";
    const needs = field.scrollHeight;
    field.style.height = "";
    const end = codes.at(-1).getBoundingClientRect().bottom + parseFloat(getComputedStyle(layer).paddingBottom);
    return { text: codes.map((code) => code.textContent).join("\\n"), needs, height,
        bottom: end - layer.getBoundingClientRect().top, places: [place(field), place(codes[0])] };
}"""
COLOURED = ".layer .code span, #rule-list .rule span, #findings .level, #rule-list .about"


# ---- completions and comments ----


def test_completion_by_keyboard(page: Any) -> None:
    write(page, "present TITLE\n")
    field = at_end(page)
    completions = page.get_by_role("listbox", name="Completions")
    field.press("Control+Space")
    expect(completions).to_be_visible()
    expect(completions).to_contain_text("no duplicates of {labels}")
    field.press("Escape")
    expect(completions).to_be_hidden()
    page.keyboard.type("dup")
    expect(completions.get_by_role("option")).to_have_count(1)
    chosen = field.get_attribute("aria-activedescendant")
    assert page.locator(f"#{chosen}").get_attribute("aria-selected") == "true"
    field.press("Enter")
    expect(completions).to_be_hidden()
    assert lines_of(page)[1].startswith("no duplicates of ")
    page.keyboard.type("aut")  # the label of the example was selected
    field.press("Tab")
    assert lines_of(page)[1] == "no duplicates of AUTHOR"
    page.keyboard.type(", ")
    field.press("Control+Space")
    field.press("ArrowDown")
    field.press("ArrowUp")
    field.press("ArrowUp")
    last = completions.get_by_role("option").last.locator(".what").inner_text()
    field.press("Enter")
    assert lines_of(page)[1] == f"no duplicates of AUTHOR, {last}"
    field.press("Control+z")
    assert lines_of(page)[1] == "no duplicates of AUTHOR, "


def test_a_whole_word_does_not_catch_enter_and_tab_leaves(page: Any) -> None:
    write(page, "")
    field = at_end(page)
    page.keyboard.type("forbid O")
    expect(page.get_by_role("listbox", name="Completions")).to_contain_text("AUTHOR")
    field.press("Enter")
    page.keyboard.type("present TITLE")
    field.press("Escape")
    assert rules_of(page) == "forbid O\npresent TITLE"
    field.press("Tab")
    assert page.evaluate("document.activeElement.id") != "rules"
    assert rules_of(page) == "forbid O\npresent TITLE"


def test_lines_become_comments_and_back(page: Any) -> None:
    write(page, "present TITLE\npresent DATE\nforbid O\n")
    field = page.locator("#rules")
    field.evaluate("field => { field.focus(); field.setSelectionRange(3, 20); }")
    field.press("Control+/")
    assert rules_of(page) == "# present TITLE\n# present DATE\nforbid O\n"
    field.press("Control+/")
    assert rules_of(page) == "present TITLE\npresent DATE\nforbid O\n"


# ---- the layer behind the text ----


@pytest.mark.parametrize("width", [1400, 390])
def test_the_layer_has_the_text_of_the_field_in_the_same_places(open_page: Any, width: int) -> None:
    page = open_page(width=width)
    page.fill("#rules", ODD)
    result = page.evaluate(MEASURE)
    assert result["text"] == ODD == rules_of(page)
    assert result["bottom"] == pytest.approx(result["needs"], abs=1)  # the last line ends where the field needs its end
    assert result["height"] >= result["needs"]  # so that the field does not scroll by itself
    (left, right, *style), (left_of_layer, right_of_layer, *style_of_layer) = result["places"]
    assert abs(left - left_of_layer) < 0.1
    assert abs(right - right_of_layer) < 0.1
    assert style == style_of_layer


def test_the_layer_follows_every_edit(page: Any) -> None:
    write(page, "present TITLE\npresent DATE\nforbid O\n")
    field = page.locator("#rules")
    for start, end, key in [
        (0, 0, "Enter"),
        (5, 20, "Delete"),
        (3, 3, "x"),
        (0, 99, "y"),
        (1, 1, "Enter"),
        (0, 2, "Backspace"),
    ]:
        field.evaluate("(field, [start, end]) => { field.focus(); field.setSelectionRange(start, end); }", [start, end])
        field.press(key)
        drawn = "\n".join(page.locator(".layer .code").all_text_contents())
        assert drawn == rules_of(page)


@pytest.mark.slow
def test_five_hundred_lines_do_not_lag(open_page: Any) -> None:
    page = open_page(expected="413")  # more rules than the server takes
    page.fill("#rules", "\n".join(rf"fix DATE at tokens /1{k:03}/  [penalty 1]  # no. {k}" for k in range(500)))
    expect(page.locator("#rule-list li")).to_have_count(500)
    script, frame = page.locator("#rules").evaluate(
        """async (field) => {
            field.focus();
            field.setSelectionRange(9000, 9000);
            const script = [], frame = [], middle = (times) => times.sort((a, b) => a - b)[7] / 1000;
            for (let k = 0; k < 15; k++) {
                const begun = performance.now();
                document.execCommand("insertText", false, "1");
                script.push(performance.now() - begun);
                await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
                frame.push(performance.now() - begun);
            }
            return [middle(script), middle(frame)];
        }"""
    )
    assert script < 0.03  # seconds; 0.004 on a machine with nothing else to do
    assert frame < 0.25  # 0.02


@pytest.mark.parametrize("dark", [False, True])
def test_contrast_of_the_language(open_page: Any, dark: bool) -> None:
    page = open_page(dark=dark)
    page.fill(
        "#rules",
        'present AUTOR, DATE [penalty 1] # c\nfix O at pos /x/, 3\n# off: present DATE\nmatches "O*"\nmatches "x\n',
    )
    low = page.evaluate(
        """(selector) => {
            const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
            const light = (colour) => {
                canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
                const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255)
                    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const back = light(getComputedStyle(document.querySelector(".editor-scroller")).backgroundColor);
            return [...document.querySelectorAll(selector)].map((one) => {
                const [a, b] = [light(getComputedStyle(one).color), back].sort((x, y) => y - x);
                return [one.className, (a + 0.05) / (b + 0.05)];
            }).filter(([, ratio]) => ratio < 4.5);
        }""",
        COLOURED,
    )
    assert low == []
