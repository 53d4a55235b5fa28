"""The rules of the explorer in a browser: typing, switches, sliders, undo, findings, test cases."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.heavy.explorer.rule_fields import KNUTH, SELECTED, at_end, dates, expect, item, lines_of, rules_of, write

INJECTION = '<img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script>'


# ---- the text and the result ----


def test_typing_a_rule_changes_the_result(page: Any) -> None:
    write(page, "", KNUTH)
    before = page.locator("#constrained").inner_text()
    at_end(page)
    page.keyboard.type("forbid DATE")
    page.keyboard.press("Escape")
    expect(dates(page)).to_have_count(0)
    expect(page.locator("#rule-list li")).to_have_count(1)
    assert page.locator("#constrained").inner_text() != before


def test_switching_a_rule_off_and_on(page: Any) -> None:
    write(page, "# my rules\nforbid DATE  # none\npresent TITLE\n", KNUTH)
    expect(dates(page)).to_have_count(0)
    box = page.get_by_role("checkbox", name="forbid DATE", exact=True)
    box.uncheck()
    assert rules_of(page) == "# my rules\n# off: forbid DATE  # none\npresent TITLE\n"
    expect(dates(page)).to_have_count(1)
    expect(item(page, "forbid DATE")).to_contain_text("off")
    expect(page.locator("#rules-pane")).to_contain_text("2, 1 off")
    box.check()
    assert rules_of(page) == "# my rules\nforbid DATE  # none\npresent TITLE\n"
    expect(dates(page)).to_have_count(0)


def test_sliding_a_penalty_changes_text_and_result(page: Any) -> None:
    write(page, "forbid DATE    [penalty 0.1]   # a little\npresent TITLE\n", KNUTH)
    expect(dates(page)).to_have_count(1)
    item(page, "forbid DATE").locator("input[type=range]").fill("9.5")
    expect(page.locator("#rules")).to_have_value("forbid DATE    [penalty 9.5]   # a little\npresent TITLE\n")
    number = item(page, "forbid DATE").locator("input[type=number]")
    expect(number).to_have_value("9.5")
    expect(page.locator("#effects")).to_contain_text("9.5")
    number.fill("40")
    expect(page.locator("#rules")).to_have_value("forbid DATE    [penalty 40]    # a little\npresent TITLE\n")
    expect(dates(page)).to_have_count(0)
    expect(item(page, "forbid DATE").locator("input[type=range]")).to_have_attribute("max", "40")


def test_dragging_keeps_the_slider_and_is_one_step_of_undo(page: Any) -> None:
    write(page, "present TITLE\nforbid DATE [penalty 1]\n")
    expect(page.locator("#effects")).to_contain_text("forbid DATE")  # then nothing moves the slider any more
    page.wait_for_load_state("networkidle")
    slider = item(page, "forbid DATE").locator("input[type=range]")
    slider.evaluate("slider => { window.slider = slider; }")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.12, middle)
    page.mouse.down()
    seen = set()
    for step in range(2, 10):
        page.mouse.move(box["x"] + box["width"] * step / 10, middle)
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        seen.add(lines_of(page)[1])
    page.mouse.up()
    assert len(seen) >= 6
    assert slider.evaluate("slider => slider === window.slider && document.activeElement === slider")
    value = slider.input_value()
    assert 8 < float(value) < 10
    assert lines_of(page)[1] == f"forbid DATE [penalty {value}]"
    page.keyboard.press("Control+z")
    assert lines_of(page)[1] == "forbid DATE [penalty 1]"
    expect(slider).to_have_value("1")


def test_soft_and_hard(page: Any) -> None:
    write(page, "present TITLE\npresent DATE   # a year\n")
    element = item(page, "present DATE")
    expect(element.locator("input[type=range]")).to_be_hidden()
    element.get_by_role("button", name="make soft").click()
    assert lines_of(page)[1] == "present DATE  [penalty 2.3]   # a year"
    expect(element.locator("input[type=range]")).to_have_value("2.3")
    element.get_by_role("button", name="make hard").click()
    assert re.fullmatch("present DATE +# a year", lines_of(page)[1])
    expect(element.locator("input[type=range]")).to_be_hidden()
    page.fill("#rules", "present DATE [penalty 4]\n")
    page.get_by_role("button", name="make hard: present DATE").click()
    page.get_by_role("button", name="make soft: present DATE").click()
    assert lines_of(page)[0] == "present DATE  [penalty 4]"


def test_switching_fifty_rules_fast_loses_nothing(page: Any) -> None:
    rules = [rf"fix DATE at tokens /1{k:03}/  [penalty 1]  # no. {k}" for k in range(50)]
    write(page, "\n".join(rules))
    boxes = page.locator("#rule-list input[type=checkbox]")
    boxes.evaluate_all("boxes => boxes.forEach(box => box.click())")
    assert lines_of(page) == [f"# off: {rule}" for rule in rules]
    boxes.evaluate_all("boxes => boxes.filter((_, k) => k % 2).forEach(box => box.click())")
    wanted = [rule if k % 2 else f"# off: {rule}" for k, rule in enumerate(rules)]
    assert lines_of(page) == wanted
    expect(page.locator("#rule-list input:checked")).to_have_count(25)
    page.locator("#rule-list input").first.focus()
    for _ in range(75):
        page.keyboard.press("Control+z")
    assert lines_of(page) == rules


def test_the_same_rule_twice_has_two_switches(page: Any) -> None:
    write(page, "present DATE\npresent DATE\n")
    page.get_by_role("checkbox", name="present DATE", exact=True).nth(1).uncheck()
    assert rules_of(page) == "present DATE\n# off: present DATE\n"


# ---- undo ----


def test_undo_and_redo(page: Any) -> None:
    write(page, "present TITLE\nforbid DATE\n")
    before = rules_of(page)
    page.get_by_role("checkbox", name="forbid DATE", exact=True).uncheck()
    off = rules_of(page)
    field = at_end(page)
    field.press("Control+z")
    assert rules_of(page) == before
    field.press("Control+Shift+z")
    assert rules_of(page) == off
    field.press("Control+z")
    at_end(page)
    page.keyboard.type("# mine")
    field.press("Control+z")
    assert rules_of(page) == before
    field.press("Control+y")
    assert rules_of(page) == before + "# mine"
    expect(page.get_by_role("checkbox", name="forbid DATE", exact=True)).to_be_checked()


def test_what_is_typed_after_undo_is_a_step_of_its_own(page: Any) -> None:
    write(page, "forbid DATE\n")
    field = at_end(page)
    page.keyboard.type("# a")
    page.get_by_role("checkbox", name="forbid DATE", exact=True).uncheck()
    field.press("Control+z")
    at_end(page)
    page.keyboard.type("b")
    assert rules_of(page) == "forbid DATE\n# ab"
    field.press("Control+z")
    assert rules_of(page) == "forbid DATE\n# a"


def test_undo_ends_at_the_rules_of_the_model(page: Any) -> None:
    before = rules_of(page)
    field = at_end(page)
    page.keyboard.type("# x")
    for _ in range(4):
        field.press("Control+z")
    assert rules_of(page) == before != ""


# ---- findings ----


def test_a_finding_is_shown_and_repaired(page: Any) -> None:
    write(page, "present TITLE\npresent AUTOR  # who\n")
    finding = page.locator("#findings li.error")
    expect(finding).to_contain_text("error")
    expect(finding).to_contain_text("unknown label 'AUTOR'; did you mean 'AUTHOR'?")
    mark = page.locator(".line .mark")
    expect(mark).to_have_attribute("aria-label", re.compile("^error: unknown label"))
    expect(page.locator(".line.has-error .p-unknown")).to_have_text("AUTOR")
    finding.get_by_role("button", name="line 2").click()
    assert page.locator("#rules").evaluate(SELECTED) == "present AUTOR  # who"
    expect(page.locator("#rules-message")).to_contain_text("Line 2, error: unknown label 'AUTOR'")
    page.locator(".editor-cell .line").nth(1).hover(force=True)
    expect(page.locator(".editor-tip")).to_contain_text("unknown label 'AUTOR'")
    finding.get_by_role("button", name="Change to").click()
    assert rules_of(page) == "present TITLE\npresent AUTHOR  # who\n"
    assert page.locator("#rules").evaluate(SELECTED) == "present AUTHOR  # who"
    expect(page.locator("#findings li.error")).to_have_count(0)
    expect(mark).to_have_count(0)


def test_findings_by_keyboard(page: Any) -> None:
    write(page, "present TITLE\npresent AUTOR\npresent DATE\npresent DAET\n")
    expect(page.locator("#findings li.error")).to_have_count(2)
    field = page.locator("#rules")
    field.evaluate("field => { field.focus(); field.setSelectionRange(0, 0); }")
    field.press("F8")
    expect(page.locator("#rules-message")).to_contain_text("Line 2")
    field.press("F8")
    expect(page.locator("#rules-message")).to_contain_text("Line 4")
    field.press("Control+.")
    expect(page.locator("#rules")).to_have_value("present TITLE\npresent AUTOR\npresent DATE\npresent DATE\n")
    field.press("Shift+F8")
    expect(page.locator("#rules-message")).to_contain_text("Line 2")


def test_marks_stay_with_their_lines(page: Any) -> None:
    write(page, "present TITLE\npresent AUTOR\n")
    expect(page.locator(".line.has-error")).to_have_count(1)
    page.locator("#rules").evaluate("field => { field.focus(); field.setSelectionRange(0, 0); }")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert (
        page.locator(".layer .line").evaluate_all("lines => lines.findIndex(line => line.matches('.has-error'))") == 3
    )
    page.fill("#rules", "present TITLE\n\n\npresent AUTHOR\n")
    expect(page.locator(".line.has-error")).to_have_count(0)


# ---- test cases ----


def test_cases_go_red_and_green(page: Any) -> None:
    good = f'example "{KNUTH}" has DATE "1984"'
    write(page, f"present TITLE\n{good}\n", KNUTH)
    case = page.locator("#examples-list li")
    expect(case).to_contain_text("passed")
    expect(case).to_have_class("passed")
    green = case.locator(".level").evaluate("word => getComputedStyle(word).color")
    page.fill("#rules", f"forbid DATE\n{good}\n")
    expect(case).to_contain_text("failed")
    expect(case).to_contain_text("Got: ")
    assert case.locator(".level").evaluate("word => getComputedStyle(word).color") != green
    expect(page.locator("#rules-pane")).to_contain_text("1, 1 failed")
    case.get_by_role("button", name="line 2").click()
    assert page.locator("#rules").evaluate(SELECTED) == good


@pytest.mark.parametrize("text", [KNUTH, 'Knuth, D. “The "TeXbook" 🦄 \\ more”. 1984.'])
def test_the_result_becomes_a_test_case(page: Any, text: str) -> None:
    write(page, "present TITLE\n", text)
    expect(page.locator("#status")).to_contain_text("proved:")
    page.get_by_role("button", name="Add the current result as a test case").click()
    assert lines_of(page)[2].startswith('example "Knuth, ')
    assert " is AUTHOR " in lines_of(page)[2]
    expect(page.locator("#examples-list li")).to_contain_text("passed")
    expect(page.locator("#examples-list q")).to_have_text(text)
    before = rules_of(page)
    page.get_by_role("button", name="Add the current result as a test case").click()  # there is one for this text
    assert rules_of(page) == before


def test_an_older_result_does_not_become_a_test_case(page: Any) -> None:
    write(page, "present TITLE\n", KNUTH)
    button = page.locator("#add-example")
    expect(button).to_have_attribute("aria-disabled", "false")
    page.get_by_role("checkbox", name="present TITLE", exact=True).evaluate(
        "box => { box.click(); document.querySelector('#add-example').click(); }"
    )
    assert rules_of(page) == "# off: present TITLE\n"
    expect(button).to_have_attribute("aria-disabled", "false")


def test_a_failing_test_case_is_not_replaced(page: Any) -> None:
    rules = f'present TITLE\nexample "{KNUTH}" has DATE "1985"  # wrong\n'
    write(page, rules, KNUTH)
    expect(page.locator("#examples-list li")).to_have_class("failed")
    page.locator("#add-example[aria-disabled=false]").click()
    expect(page.locator("#status")).to_have_text("Line 2 already has a test case for this text, which fails.")
    assert rules_of(page) == rules
    assert page.locator("#rules").evaluate(SELECTED) == lines_of(page)[1]
    page.fill("#rules", rules.replace("1985", "1984"))
    expect(page.locator("#examples-list li")).to_have_class("passed")
    page.locator("#add-example[aria-disabled=false]").click()
    assert re.fullmatch('example ".*" is AUTHOR .*  # wrong', lines_of(page)[1])


def test_it_is_told_why_test_cases_do_not_run(page: Any) -> None:
    problem = {"code": "text", "what": "the model reads columns, not text", "cause": "Train it on text."}
    write(page, f'example "{KNUTH}" has DATE "1984"\n', KNUTH)
    page.evaluate(
        """problem => { const plain = window.fetch;
          window.fetch = (path, ...rest) => !String(path).endsWith("rules/test") ? plain(path, ...rest)
            : Promise.resolve(new Response(JSON.stringify({ error: problem }), { status: 422 })); }""",
        problem,
    )
    page.fill("#rules", f'present TITLE\nexample "{KNUTH}" has DATE "1984"\n')
    message = page.locator("#examples-error")
    expect(message).to_contain_text("The model reads columns, not text.")
    expect(message).to_contain_text("Train it on text.")
    page.fill("#rules", "present TITLE\n")
    expect(message).to_be_empty()


# ---- everything else ----


def test_injection_stays_text(page: Any) -> None:
    page.fill(
        "#rules",
        f'present {INJECTION}\npresent "{INJECTION}"\n# {INJECTION}\nexample "{INJECTION}" has X "x"\nforbid DATE',
    )
    expect(page.locator("#findings li.error").first).to_contain_text("<img src=x")
    expect(page.locator("#rule-list")).to_contain_text("<script>")
    assert page.locator("#rules-pane img, #rules-pane script, .layer img").count() == 0
    assert page.evaluate("window.hacked") is None
    field = at_end(page)
    field.press("Enter")
    field.press("Control+Space")
    assert page.evaluate("window.hacked") is None


def test_figures_of_labelled_data_stand_beside_each_rule(page: Any) -> None:
    first = page.locator("#rule-list li").first
    expect(first).to_contain_text(re.compile(r"gold breaks it \d+×, labels without rules \d+×"))
    expect(first).to_contain_text(re.compile(r"F1 [+−]?\d+\.\d points \(interval"))
    page.fill("#rules", "present TITLE\nforbid AUTHOR\n")
    expect(item(page, "forbid AUTHOR")).to_contain_text("hurts")


def test_rules_that_were_not_checked_are_not_sent(page: Any) -> None:
    """Text that is typed while the server checks older rules may be unreadable: the request would fail."""
    page.evaluate(
        """() => { const plain = window.fetch, field = document.querySelector("#rules"); let typed = false;
          window.fetch = async (path, ...rest) => {
            const answer = await plain(path, ...rest);
            if (String(path).endsWith("rules/check") && !typed) {  // typed just before the answer comes in
              typed = true;
              field.value += "no such rule\\n";
              field.dispatchEvent(new Event("input", { bubbles: true }));
              await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            }
            return answer;
          }; }"""
    )
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.post_data or "") if "/explain" in request.url else None)
    page.locator("#rules").fill("forbid DATE\n")
    expect(page.locator("#findings")).to_contain_text("line 2")
    with page.expect_request(lambda request: "/explain" in request.url and "forbid DATE" in (request.post_data or "")):
        page.locator("#rules").fill("forbid DATE\n\n")
    assert not any("no such rule" in body for body in asked)
