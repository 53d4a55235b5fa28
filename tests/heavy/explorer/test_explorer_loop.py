"""The loop of a user who debugs rules: see what is wrong, correct it, take a rule, tune it, learn more, keep it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from commands import Cli
from stopwatch import patience
from tests.heavy.explorer.conftest import OpenPage, Own, explorer
from tests.heavy.explorer.rule_fields import at_end, expect, item, lines_of, rules_of

# Waits for an element's text as the browser draws it: milliseconds from a key to the frame after it.
ECHO = """
() => new Promise((done) => {
  const field = document.querySelector("#rules"), times = [];
  field.focus();
  field.setSelectionRange(field.value.length, field.value.length);
  const next = (k) => {
    if (k === 12) return done(times.sort((a, b) => a - b)[6]);
    const begun = performance.now();
    document.execCommand("insertText", false, "x");
    requestAnimationFrame(() => setTimeout(() => {
      times.push(performance.now() - begun);
      setTimeout(() => next(k + 1), 60);
    }));
  };
  next(0);
})
"""
PLACES = """
() => Object.fromEntries(["plain", "constrained", "effects", "alternatives", "findings", "rule-list", "figures"]
  .map((id) => [id, Math.round(document.getElementById(id).getBoundingClientRect().top + scrollY)]))
"""


def f1(page: Any) -> float:
    """F1 with all rules, as the page shows it."""
    return float(re.findall(r"([\d.]+)\s%", page.locator("#scores .tile").first.inner_text())[1])


def choose(page: Any, key: str) -> None:
    """Choose a filter."""
    expect(page.locator(f"#filter option[value={key}]")).to_contain_text("(")
    page.select_option("#filter", key)


# ---- three jobs ----


def test_a_reference_is_repaired_by_a_correction(page: Any) -> None:
    choose(page, "wrong")
    before, rules = f1(page), rules_of(page)
    page.locator("#constrained .token.wrong").first.click()
    gold = page.locator("#correction .pick").first
    expect(gold).to_contain_text("gold")
    gold.click()
    suggestions = page.locator("#correction .suggested li")
    effect = r"\d+ tokens? becomes? right, \d+ wrong, F1 \+.* points \(interval .*costs \d"
    expect(suggestions.first).to_contain_text(re.compile(effect))
    assert 3 <= suggestions.count() <= 5
    rule = suggestions.first.locator(".rule").inner_text()
    suggestions.first.get_by_role("button").click()
    added = rules_of(page).removeprefix(rules.rstrip("\n"))
    assert added.split("\n")[1] == rule and 'example "' in added
    segment = re.findall(r' has \w+ "(.+?)"', added)[0]
    assert segment in page.locator("#gold-labels").inner_text().replace("\n", "")
    expect(page.locator("#status")).to_contain_text("Added the rule and the correction as a test case.")
    expect(page.locator("#examples-list .passed")).to_have_count(1)
    expect(page.locator("#scores strong").first).not_to_have_text(f"{before}\u202f%")
    assert f1(page) > before
    page.click("#undo")
    assert rules_of(page) == rules


def test_rules_are_learned_in_the_page(open_page: OpenPage, own: Own) -> None:
    page = open_page(server=own.address)
    expect(page.locator("#scores .gained").first).to_contain_text("points")
    page.click("#learn")
    expect(page.locator("#stop-job")).to_be_visible()
    page.reload()  # the work ends with its page: the next one can begin
    page.set_input_files("#open", own.data)
    expect(page.locator("#data-name")).to_contain_text("dev.jsonl")
    expect(page.locator("#scores .gained").first).to_contain_text("points")
    before = f1(page)
    page.click("#learn")
    expect(page.locator("#stop-job")).to_be_visible()
    page.click("#stop-job")
    expect(page.locator("#job")).to_contain_text("Stopped")
    page.click("#learn")
    add = page.get_by_role("button", name="Add the chosen rules")
    expect(add).to_be_visible(timeout=40_000)
    page.locator("#job input").first.check()
    add.click()
    assert "# learned: held in" in rules_of(page)
    expect(page.locator("#scores strong").first).not_to_have_text(f"{before}\u202f%")
    assert f1(page) > before


# ---- what gets lost nowhere ----


def test_rules_are_saved_and_come_back(open_page: OpenPage, own: Own) -> None:
    page = open_page(server=own.address, expected="status of 409")
    text = own.rules.read_text(encoding="utf-8")
    expect(page.locator("#rules")).to_have_value(text)
    expect(page.locator("#data-name")).to_contain_text("Sample references")  # without a click
    at_end(page)
    page.keyboard.type("# mine")
    expect(page.locator("#file-state")).to_have_text("my.rules · not saved")
    page.keyboard.press("Control+s")
    expect(page.locator("#file-state")).to_have_text("my.rules")
    assert own.rules.read_text(encoding="utf-8") == text + "# mine"
    page.keyboard.type(" too")
    expect(page).to_have_url(re.compile("#v1"))
    page.wait_for_timeout(800)  # until the browser has kept it
    page.goto("about:blank")
    page.goto(own.address)  # without the fragment: what the browser has kept
    expect(page.locator("#rules")).to_have_value(text + "# mine too")
    own.rules.write_text("present TITLE\n", encoding="utf-8")
    page.click("#save")
    expect(page.locator("#page-error")).to_contain_text("Another program has changed my.rules.")
    assert own.rules.read_text(encoding="utf-8") == "present TITLE\n"
    page.get_by_role("button", name="Show what the file holds now").click()
    expect(page.locator("#rules")).to_have_value("present TITLE\n")
    page.click("#undo")
    expect(page.locator("#rules")).to_have_value(text + "# mine too")
    page.wait_for_timeout(800)
    page.goto("about:blank")
    own.rules.write_text(text, encoding="utf-8")
    page.goto(own.address)
    expect(page.locator("#page-error")).to_contain_text("my.rules changed while this page was closed.")
    expect(page.locator("#rules")).to_have_value(text)
    page.get_by_role("button", name="Bring mine back").click()
    expect(page.locator("#rules")).to_have_value(text + "# mine too")


def test_figures_lead_to_sequences(page: Any) -> None:
    for key, badge in (("wrong", "wrong"), ("worse", "wrong"), ("repaired", "right")):
        choose(page, key)
        badges = page.locator("#sequences .badge").all_text_contents()
        assert badges and all(badge in text for text in badges)
    page.select_option("#sort", "change")
    gains = page.locator("#sequences .badge .good:first-child").all_text_contents()[:20]
    numbers = [int(gain.split()[0]) for gain in gains if "repaired" in gain]
    assert numbers == sorted(numbers, reverse=True) and numbers[0] > 5
    page.fill("#search", "hu2022")
    expect(page.locator("#list-count")).to_contain_text(re.compile(r"^\d of 600"))
    row = page.locator(".figures tbody tr", has_text="around tokens")
    row.get_by_role("button", name="68").click()  # gold labels that break it
    expect(page.locator("#filter")).to_have_value(re.compile(r"rule \d+ gold"))
    expect(page.locator("#list-count")).to_have_text("68 of 600 sequences")
    expect(page.locator("#search")).to_have_value("")
    page.locator("#mistakes summary").click()
    link = page.locator("#mistakes .figure").first
    count = int(link.inner_text())
    link.click()
    assert 0 < int(page.locator("#list-count").inner_text().split()[0]) <= count


def test_marks_and_a_baseline(page: Any) -> None:
    expect(page.locator(".figures tbody tr")).to_have_count(9)
    page.click("#pin")
    rules = rules_of(page)
    page.fill("#rules", rules + "present TITLE\nforbid PAGES at tokens /qqq/\nforbid DATE\n")
    rows = page.locator(".figures tbody tr")
    expect(rows).to_have_count(12)
    expect(rows.nth(9)).to_contain_text("only repeats others")
    expect(rows.nth(10)).to_contain_text("never fires")
    expect(rows.nth(11)).to_contain_text("hurts")
    expect(item(page, "forbid DATE")).to_contain_text("hurts")  # although it contradicts another one
    expect(page.locator("#scores .tile").first.locator(".bad").last).to_contain_text("−")
    expect(page.locator("#baseline .added")).to_have_count(3)
    page.locator("#baseline").get_by_role("button", name=re.compile(r"^\d+ worse")).click()
    expect(page.locator("#filter")).to_have_value("lost")
    page.get_by_role("button", name="Go back to it").click()
    assert rules_of(page) == rules
    expect(page.locator("#baseline .diff")).to_have_count(0)


# ---- typing ----


def test_nothing_jumps_and_nothing_scolds_while_typing(page: Any) -> None:
    expect(page.locator(".figures tbody tr")).to_have_count(9)
    before = page.evaluate(PLACES)
    at_end(page)
    for letter in "present AUT":
        page.keyboard.type(letter)
        page.keyboard.press("Escape")
        page.wait_for_timeout(30)
        now = page.evaluate(PLACES)
        assert {name: now[name] for name in ("plain", "constrained", "effects", "findings")} == {
            name: before[name] for name in ("plain", "constrained", "effects", "findings")
        }
        assert page.locator("#findings .error, .line.has-error, .problem").count() == 0
    expect(page.locator("#findings .error")).to_have_count(1)  # after a pause
    assert page.locator("#note, #page-error").all_inner_texts() == ["", ""]
    now = page.evaluate(PLACES)
    assert now["constrained"] == before["constrained"] and now["rule-list"] == before["rule-list"]


def test_150_rules_stay_quick(page: Any) -> None:
    words = page.evaluate("""() => [...new Set([...document.querySelectorAll("#sequences .words")]
      .flatMap((one) => one.textContent.match(/[A-Za-z]{4,}/g) ?? []))].slice(0, 141)""")
    rules = rules_of(page) + "".join(f"forbid DATE at tokens /{word}/  [penalty 1]\n" for word in words)
    with page.expect_response(lambda response: response.url.endswith("/evaluate")):
        page.fill("#rules", rules)
    expect(page.locator("#rule-list li")).to_have_count(150)
    expect(page.locator(".figures tbody tr")).to_have_count(150)
    assert page.evaluate(ECHO) < 1000 * patience(0.05)
    page.fill("#rules", rules + "forbid PAGES\n")
    begun = page.evaluate("performance.now()")
    expect(page.locator("#scores .bad").first).to_be_visible()
    assert page.evaluate("performance.now()") - begun < 1000 * patience(1)


# ---- the first look ----


def test_the_first_screen_explains_itself(open_page: OpenPage) -> None:
    page = open_page(width=390, height=844)
    assert page.locator("#result").bounding_box()["y"] < 700
    expect(page.locator("#about")).to_contain_text("Rules correct the labels of a model")
    assert page.locator("#plain .wrong").count() >= 5  # a striking repair
    assert page.locator("#constrained .wrong").count() == 0
    expect(page.locator("#gold-labels .segment").first).to_be_visible()
    expect(page.locator("#findings .warning, #findings .error")).to_have_count(0)
    text = page.locator("body").inner_text()
    assert not re.search(r"\b(ruled|in all|relaxed|labelling)\b", text)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("broken.jsonl", '{"tokens": [1, 2', "not a JSON line"),
        ("empty.conll", "", "no sequences"),
        ("model.bridle", "text", "not a Bridle model"),
    ],
)
def test_files_that_cannot_be_read_are_told_in_plain_words(
    open_page: OpenPage, own: Own, tmp_path: Any, name: str, content: str, message: str
) -> None:
    page = open_page(server=own.address, expected="status of 4")
    (tmp_path / name).write_text(content)
    page.set_input_files("#open", tmp_path / name)
    problem = page.locator("#page-error .problem")
    expect(problem).to_contain_text(message)
    assert not re.search(r"None|Traceback|Error:|<class|object at|\bchar \d", problem.inner_text())


def test_a_correction_by_keyboard(page: Any) -> None:
    row = page.locator("#constrained")
    row.focus()
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#constrained .chosen")).to_have_count(2)
    assert page.evaluate("document.activeElement.className").startswith("pick")
    page.keyboard.press("Enter")
    expect(page.locator("#suggestions")).not_to_be_empty()


def test_a_segment_is_corrected_by_dragging(page: Any) -> None:
    tokens = page.locator("#constrained .token")
    first, last = tokens.nth(1).bounding_box(), tokens.nth(3).bounding_box()
    page.mouse.move(first["x"] + 3, first["y"] + first["height"] / 2)
    page.mouse.down()
    page.mouse.move(last["x"] + last["width"] / 2, last["y"] + last["height"] / 2, steps=5)
    page.mouse.up()
    expect(page.locator("#constrained .chosen")).to_have_count(3)
    words = [tokens.nth(t).get_attribute("data-t") for t in (1, 3)]
    assert words == ["1", "3"]
    page.get_by_role("button", name="Add the token after").click()  # for touch screens
    expect(page.locator("#constrained .chosen")).to_have_count(4)
    page.locator("#correction .pick", has_text="VENUE").click()
    expect(page.locator("#suggestions")).to_contain_text(re.compile("Each of these rules|No single rule"))
    page.keyboard.press("Escape")


def test_files_are_dropped_on_the_page(page: Any) -> None:
    page.evaluate("""() => {
      const dropped = new DataTransfer();
      dropped.items.add(new File(["present DATE\\n"], "other.rules"));
      document.dispatchEvent(new DragEvent("drop", {dataTransfer: dropped, bubbles: true}));
    }""")
    expect(page.locator("#rules")).to_have_value("present DATE\n")
    page.click("#undo")
    assert rules_of(page).count("\n") > 5


def test_links_and_unsaved_rules_work_after_a_restart(run: Cli, open_page: OpenPage) -> None:
    with explorer(run) as address:
        port = re.search(r":(\d+)/", address)
        assert port is not None
        page = open_page(server=address)
        page.fill("#rules", "present DATE\n")
        expect(page).to_have_url(re.compile("#v1"))
        page.wait_for_timeout(800)  # until the browser has kept it
        link = page.url
        page.goto("about:blank")
    with explorer(run, "--port", port[1]) as again:
        assert again == address
        page.goto(link)
        expect(page.locator("#rules")).to_have_value("present DATE\n")
        page.goto("about:blank")
        page.goto(address)  # what the browser has kept
        expect(page.locator("#rules")).to_have_value("present DATE\n")
        expect(page.locator("#constrained .token").first).to_be_visible()
        page.goto("about:blank")  # so that it asks nothing while the server stops


def test_own_model_and_data_and_a_rule_that_hurts(open_page: OpenPage, own: Own) -> None:
    page = open_page(server=own.address)  # the last test of this server, because its model changes
    page.fill("#rules", "present NOTHING\n")
    page.set_input_files("#open", own.model)
    expect(page.locator("#model-name")).to_contain_text("own")
    expect(page.locator("#findings .error")).to_contain_text("unknown label 'NOTHING'")  # also of the new model
    page.set_input_files("#open", own.data)
    expect(page.locator("#data-name")).to_contain_text("dev.jsonl")
    page.fill("#rules", "starts with AUTHOR\nforbid DATE  [penalty 30]\n")
    bad = item(page, "forbid DATE")
    expect(bad).to_contain_text("hurts")
    expect(page.locator(".figures tbody tr").nth(1)).to_contain_text(re.compile("−.*−"))
    before = f1(page)
    bad.get_by_role("button", name="tune:").click()
    expect(page.locator("#job .suggested")).to_contain_text("off")
    page.locator("#job .accept").click()
    assert lines_of(page)[1].startswith("# off: forbid DATE")
    expect(page.locator(".figures tbody tr")).to_have_count(1)
    assert f1(page) > before + 1
