"""The explorer in a browser: text, labelled data, the result, figures, links and downloads."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest

import bridle
from stopwatch import patience

expect = pytest.importorskip("playwright.sync_api", reason="browser tests need the package playwright").expect
expect.set_options(timeout=15_000)  # milliseconds; a machine under load is slow


def sample(page: Any) -> None:
    """Show the first sequence of the sample."""
    page.locator("#browse").evaluate("list => { list.open = true; }")
    page.locator("#sequences button").first.evaluate("button => button.click()")
    expect(page.locator("#position")).to_contain_text("1 of ")


KNUTH = "Knuth, Donald E. The TeXbook. Addison-Wesley, 1984."
QUOTED = "Petar Maymounkov. “Kademlia.” Springer, 2002, pp. 53–65."
CLASH = "starts with AUTHOR\nforbid AUTHOR at 0\n"
STATIC = Path(bridle.__file__).parent / "serve" / "static"


def written(page: Any, selector: str, label: str) -> str:
    """The text of the segments of a label, without its name."""
    result = page.locator(f"{selector} .segment", has=page.locator(".tag", has_text=re.compile(f"^{label}$")))
    return " ".join(text.removeprefix(label).strip("\xa0 ") for text in result.all_inner_texts())


def rewrite(page: Any, text: str) -> None:
    """Put a text into the field and wait for its labels."""
    page.fill("#text", text)
    expect(page.locator("#plain .token").last).to_have_text(re.compile(re.escape(text.rstrip()[-1])))
    words = text.split()
    expect(page.locator("#plain")).to_contain_text(words[-1].rstrip("."))


def test_assets_are_small_and_ask_nobody_else() -> None:
    files = [path for path in STATIC.iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 400_000
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text.replace("without innerHTML", "")
        )
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), path.name


def test_text_is_labelled(page: Any) -> None:
    rewrite(page, KNUTH)
    expect(page.locator("#constrained")).to_contain_text("DATE")
    assert "1984" in written(page, "#constrained", "DATE")
    assert "Knuth" in written(page, "#constrained", "AUTHOR")
    expect(page.locator("#status")).to_contain_text("proved: no labels")
    expect(page.locator("#proof")).to_contain_text("have a higher score than")


def test_another_text_gets_other_labels(page: Any) -> None:
    rewrite(page, KNUTH)
    page.fill("#text", KNUTH.replace("1984", "1986"))
    expect(page.locator("#constrained")).to_contain_text("1986")
    assert "1986" in written(page, "#constrained", "DATE")


def test_what_the_rules_changed_is_marked_and_explained(page: Any) -> None:
    rewrite(page, QUOTED)
    rule = page.locator("#effects li", has_text="fix O at tokens")
    expect(rule).to_contain_text("costs")
    expect(page.locator("#constrained .changed").first).to_be_visible()
    expect(page.locator("#constrained .was").first).to_contain_text("was")
    assert page.locator("#constrained .lit").count() == 0
    rule.get_by_role("button").focus()
    expect(page.locator("#constrained .lit").first).to_be_visible()
    rule.get_by_role("button").click()
    assert page.evaluate("document.activeElement.id") == "rules"


def test_alternatives_and_probabilities(page: Any) -> None:
    rewrite(page, KNUTH)
    expect(page.locator("#alternatives li")).to_have_count(5)
    expect(page.locator("#alternatives li").first).to_contain_text("→")
    tokens = page.locator("#constrained .token").count()
    expect(page.locator("#probabilities .bar")).to_have_count(tokens)
    assert re.search(r"Knuth: AUTHOR \d+\.\d\s%", page.locator("#probabilities .bar").first.get_attribute("title"))
    page.get_by_text("As a table").click()
    expect(page.locator("#probabilities tbody tr")).to_have_count(tokens)


def test_trellis_on_demand(page: Any) -> None:
    assert page.locator("#trellis img").count() == 0
    page.get_by_role("button", name="Show the trellis").click()
    picture = page.locator("#trellis img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 200
    assert "trellis" in picture.get_attribute("alt")
    page.get_by_role("button", name="Hide the trellis").click()
    expect(picture).to_have_count(0)


def test_clash_is_shown_with_its_lines(page: Any) -> None:
    page.fill("#rules", CLASH)
    clash = page.locator("#clash")
    expect(clash).to_contain_text("cannot hold together")
    expect(clash).to_contain_text("as few times as possible")
    expect(clash.locator("li")).to_have_count(2)
    expect(page.locator("#status")).to_contain_text("contradict each other")
    clash.get_by_role("button", name="forbid AUTHOR at 0").click()
    start = page.locator("#rules").evaluate("field => field.value.slice(0, field.selectionStart).split('\\n').length")
    assert start == 2
    page.fill("#rules", "starts with AUTHOR\n")
    expect(clash).to_be_empty()


def test_rules_that_cannot_be_read_keep_the_last_result(page: Any) -> None:
    before = page.locator("#constrained").inner_text()
    page.fill("#rules", "present AUTHOR\nat most of nothing\n")
    expect(page.locator("#stale")).to_be_visible()  # a second later
    assert page.locator("#constrained").inner_text() == before
    assert page.locator("#note, #page-error").all_inner_texts() == ["", ""]  # the error stands in one place
    page.locator("#findings").get_by_role("button", name="line 2").click()
    assert page.evaluate("document.activeElement.id") == "rules"
    page.fill("#rules", "present AUTHOR\n")
    expect(page.locator("#stale")).to_be_hidden()


def test_no_text_is_not_an_error(page: Any) -> None:
    page.fill("#text", "  ")
    expect(page.locator("#note")).to_contain_text("Write or paste a text")
    expect(page.locator("#answer")).to_be_hidden()
    rewrite(page, KNUTH)
    expect(page.locator("#answer")).to_be_visible()


def test_long_text_stays_usable(page: Any) -> None:
    page.fill("#text", " ".join([KNUTH] * 300))
    expect(page.locator("#constrained .fold").first).to_be_visible()
    expect(page.locator("#effects")).to_contain_text("too long")
    begun = time.perf_counter()
    page.locator("#text").press("End")
    page.evaluate("new Promise(requestAnimationFrame)")
    assert time.perf_counter() - begun < patience(2)
    page.locator("#plain .fold").first.click()
    expect(page.locator("#plain .fold")).to_have_count(0)


def test_text_from_right_to_left(page: Any) -> None:
    page.fill("#text", "קנות, דונלד. ספר. 1984.")
    expect(page.locator("#constrained")).to_contain_text("קנות")
    assert page.locator("#constrained .tokens").evaluate("line => getComputedStyle(line).direction") == "rtl"
    assert page.locator("#text").evaluate("field => getComputedStyle(field).direction") == "rtl"


def test_steps_through_data(page: Any) -> None:
    sample(page)
    position = page.locator("#position")
    expect(position).to_contain_text("1 of ")
    expect(page.locator("#gold-labels .tag").first).to_be_visible()
    first = page.input_value("#text")
    page.click("#next")
    expect(position).to_contain_text("2 of ")
    assert page.input_value("#text") != first
    page.locator("#next").press("j")
    expect(position).to_contain_text("3 of ")
    page.keyboard.press("k")
    page.keyboard.press("Alt+ArrowLeft")
    expect(position).to_contain_text("1 of ")
    page.locator("#rule-list input[type=checkbox]").first.press("j")  # in another pane it is not for the data
    page.locator("#rule-list input[type=range]:visible").first.press("Alt+ArrowRight")
    expect(position).to_contain_text("1 of ")
    page.locator("#text").press("j")  # in a text field it is a letter, and the text is the user's own
    expect(position).to_contain_text("your own text")
    expect(page.locator("#figures")).to_be_visible()
    page.click("#next")
    expect(position).to_contain_text("2 of ")


def test_filter_shows_what_the_rules_changed(page: Any) -> None:
    sample(page)
    expect(page.locator("#filter option[value=changed]")).to_contain_text("(")
    count = int(re.findall(r"\((\d+)\)", page.locator("#filter option[value=changed]").inner_text())[0])
    page.select_option("#filter", "changed")
    expect(page.locator("#position")).to_contain_text(f"of {count}")
    for _ in range(3):
        expect(page.locator("#constrained .changed").first).to_be_visible()
        before = page.input_value("#text")
        page.click("#next")
        expect(page.locator("#text")).not_to_have_value(before)
    page.click("#close-data")
    expect(page.locator("#figures")).to_be_hidden()
    expect(page.locator("#loaded")).to_be_hidden()


def test_figures_of_500_sequences_follow_the_rules(page: Any) -> None:
    sample(page)
    rows = page.locator(".figures tbody tr")
    expect(rows).to_have_count(9)
    assert int(re.findall(r"([\d,]+) sequences", page.locator("#figures").inner_text())[0].replace(",", "")) >= 500
    scores = page.locator("#scores").inner_text()
    before, after = map(float, re.findall(r"([\d.]+)\s%", scores)[:2])
    assert re.search(r"\+\d+\.\d points \(interval \+\d+\.\d to \+\d+\.\d\)", scores)
    assert before < after  # F1 without and with rules
    begun = time.perf_counter()
    page.fill("#rules", page.input_value("#rules") + "forbid PAGES  # not a good idea\n")
    expect(rows).to_have_count(10)
    expect(rows.last).to_contain_text("hurts")
    assert time.perf_counter() - begun < patience(5)  # about 0.4 s on an idle machine
    assert page.locator("#scores").inner_text() != scores
    rows.nth(1).get_by_role("button", name="present TITLE").click()
    selected = "field => field.value.slice(0, field.selectionStart).split('\\n').length"
    assert page.locator("#rules").evaluate(selected) == 4


def test_a_file_without_gold_labels(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "refs.jsonl"
    path.write_text("".join(json.dumps({"tokens": text.split()}) + "\n" for text in (KNUTH, QUOTED)), encoding="utf-8")
    page.set_input_files("#open", path)
    expect(page.locator("#data-name")).to_contain_text("refs.jsonl")
    expect(page.locator("#data-name")).to_contain_text("no gold labels")
    expect(page.locator("#position")).to_contain_text("1 of 2")
    expect(page.locator("#figures")).to_contain_text("no gold labels")
    expect(page.locator(".figures tbody tr")).to_have_count(9)


def test_a_file_that_cannot_be_read_is_told_kindly(open_page: Any, tmp_path: Path) -> None:
    page = open_page(expected="status of 4")
    path = tmp_path / "broken.jsonl"
    path.write_text('{"tokens": [1, 2', encoding="utf-8")
    page.set_input_files("#open", path)
    expect(page.locator("#page-error .problem")).to_contain_text("“broken.jsonl”: ")
    expect(page.locator("#data-name")).to_contain_text("Sample references")
    expect(page.locator("#constrained .token").first).to_be_visible()


def test_permalink_brings_text_and_rules_back(page: Any, open_page: Any) -> None:
    rewrite(page, QUOTED)
    page.fill("#rules", "present TITLE  # mine: ä “ ☃\n")
    page.click("#permalink")
    expect(page.locator("#permalink")).to_have_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    again = open_page(at="#" + link.partition("#")[2])
    expect(again.locator("#text")).to_have_value(QUOTED)
    expect(again.locator("#rules")).to_have_value("present TITLE  # mine: ä “ ☃\n")
    assert again.locator("#constrained").inner_text() == page.locator("#constrained").inner_text()


def test_permalink_names_the_sequence_of_the_sample(page: Any, open_page: Any) -> None:
    sample(page)
    page.click("#next")
    expect(page.locator("#position")).to_contain_text("2 of ")
    page.click("#permalink")
    expect(page.locator("#permalink")).to_have_text("Link copied")
    again = open_page(at="#" + page.url.partition("#")[2])
    expect(again.locator("#position")).to_contain_text("2 of ")
    assert again.input_value("#text") == page.input_value("#text")


@pytest.mark.parametrize("damage", ["#v1.AAAA", "#v1.%%%", "#something"])
def test_damaged_link_is_told(open_page: Any, damage: str) -> None:
    page = open_page(at=damage)
    output = "The link is damaged or incomplete." if damage.startswith("#v1.") else ""
    expect(page.locator("#status")).to_contain_text(re.compile(f"{output}.*tokens"))
    expect(page.locator("#page-error strong")).to_have_text([output] if output else [])
    page.fill("#text", KNUTH)
    expect(page.locator("#page-error")).to_be_empty()


def test_download_of_the_rules(page: Any) -> None:
    page.fill("#rules", "present TITLE\n")
    with page.expect_download() as result:
        page.click("#download")
    assert result.value.suggested_filename.endswith(".rules")
    assert Path(result.value.path()).read_text(encoding="utf-8") == "present TITLE\n"


def test_server_that_does_not_answer(open_page: Any) -> None:
    page = open_page(expected="ERR_INTERNET_DISCONNECTED")
    page.context.set_offline(True)
    page.fill("#text", KNUTH)
    expect(page.locator("#page-error")).to_contain_text("The server does not answer")
    page.context.set_offline(False)
    expect(page.locator("#page-error")).to_be_empty()  # the page tries again by itself
    expect(page.locator("#constrained")).to_contain_text("Addison-Wesley")


def test_data_that_the_server_has_forgotten_is_sent_again(open_page: Any) -> None:
    page = open_page(expected="status of 404")
    forgotten = {"error": {"code": "unknown-data", "what": "there is no such data"}}
    asked: list[str] = []

    def forget(route: Any) -> None:  # the first time only
        route.fulfill(status=404, json=forgotten) if asked.count("evaluate") == 1 else route.continue_()

    page.route("**/evaluate", forget)
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.fill("#rules", "present TITLE\n")
    expect(page.locator(".figures tbody tr")).to_have_count(1)
    assert asked.count("sample") == 1
    assert [path for path in asked if path in ("evaluate", "sample")][:3] == ["evaluate", "sample", "evaluate"]


# ---- nothing gets lost ----


def test_a_text_that_is_too_long_for_the_address_leaves_no_older_state(page: Any) -> None:
    page.fill("#rules", "present TITLE\n")
    rewrite(page, KNUTH)
    page.wait_for_url(re.compile("#v1"))
    words = [random.Random(seed).randbytes(500).hex() for seed in range(120)]
    page.fill("#text", " ".join(words))
    expect(page.locator("#status")).to_contain_text("120 tokens")
    page.click("#permalink")
    expect(page.locator("#status")).to_contain_text("The text is too long for the address bar")
    link = page.url.partition("#")[2]
    kept = page.evaluate("link => import('/static/state.js').then(m => m.fromFragment(link))", "#" + link)
    assert kept == {"sample": -1, "rules": "present TITLE\n"}


def test_the_skip_link_keeps_the_state(page: Any) -> None:
    rewrite(page, KNUTH)
    page.wait_for_url(re.compile("#v1"))
    page.locator("#skip").press("Enter")
    assert page.evaluate("document.activeElement.id") == "result"
    assert "#v1." in page.url


def test_ones_own_text_comes_back_after_data(page: Any) -> None:
    rewrite(page, KNUTH)
    sample(page)
    page.click("#next")
    expect(page.locator("#position")).to_contain_text("2 of ")
    page.click("#own-text")
    expect(page.locator("#text")).to_have_value(KNUTH)
    page.click("#next")
    expect(page.locator("#text")).not_to_have_value(KNUTH)
    page.click("#close-data")
    expect(page.locator("#text")).to_have_value(KNUTH)


def test_warnings_about_a_file_are_shown_and_said(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "strange.conll"
    path.write_bytes("Müller NOBODY\n1984 DATE\n".encode("latin-1"))
    page.set_input_files("#open", path)
    warnings = page.locator("#data-warnings li")
    expect(warnings).to_have_text([re.compile("not UTF-8"), re.compile("does not know these labels: NOBODY")])
    expect(page.locator("#text")).to_have_value("Müller 1984")
    expect(page.locator("#status")).to_contain_text("The file is not UTF-8; it was read as Windows-1252")
    page.click("#close-data")
    expect(warnings).to_have_count(0)


def test_each_line_as_its_own_sequence(page: Any) -> None:
    button = page.get_by_role("button", name="Treat each line as its own sequence")
    rewrite(page, KNUTH)
    expect(button).to_be_hidden()
    page.fill("#text", f"{KNUTH}\n\n{QUOTED}")
    button.click()
    expect(page.locator("#position")).to_contain_text("1 of 2")
    expect(button).to_be_hidden()
    page.click("#close-data")
    expect(page.locator("#text")).to_have_value(f"{KNUTH}\n\n{QUOTED}")


def test_a_model_without_sample_text_and_rules(page: Any, address: str) -> None:
    def bare(route: Any) -> None:
        answer = route.fetch().json()
        route.fulfill(json={**answer, "rules": "", "sample_texts": [], "sample": False, "takes_text": False})

    page.route("**/model", bare)
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator("#status")).to_have_text("There is no text yet.")
    assert page.locator("#rules").get_attribute("placeholder") == "Write a rule, or press Ctrl+Space"
    page.fill("#text", KNUTH)
    expect(page.locator("#constrained")).to_contain_text("1984")
    button = page.get_by_role("button", name="Add the current result as a test case")
    expect(button).to_have_attribute("aria-disabled", "true")  # test cases are texts
    expect(button).to_have_attribute("title", re.compile("reads text"))
