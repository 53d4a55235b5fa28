"""The rule editor as tests use it."""

from __future__ import annotations

import re
from typing import Any

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="browser tests need the package playwright").expect
expect.set_options(timeout=30_000)  # milliseconds; a machine under load is slow

KNUTH = "Knuth, Donald E. The TeXbook. Addison-Wesley, 1984."
SELECTED = "field => field.value.slice(field.selectionStart, field.selectionEnd)"


def rules_of(page: Any) -> str:
    return str(page.locator("#rules").input_value())


def lines_of(page: Any) -> list[str]:
    return rules_of(page).split("\n")


def item(page: Any, sentence: str) -> Any:
    """The item of a rule in the list of rules."""
    return page.locator("#rule-list li", has=page.get_by_role("checkbox", name=sentence, exact=True))


def dates(page: Any) -> Any:
    """The segments with the label DATE in the result with rules."""
    return page.locator("#constrained .tag", has_text=re.compile("^DATE$"))


def write(page: Any, rules: str, text: str = "") -> None:
    """Put rules, and a text, into the fields, and wait until the list shows the rules."""
    if text:
        page.fill("#text", text)
        expect(page.locator("#plain")).to_contain_text(text.split()[-1].strip("."))
    page.fill("#rules", rules)
    wanted = sum(
        bool(re.match(r"(# off: )?[^#\s]", line)) and not line.startswith("example") for line in rules.split("\n")
    )
    expect(page.locator("#rule-list li")).to_have_count(wanted)


def at_end(page: Any) -> Any:
    """The field, with the cursor at the end of its text."""
    field = page.locator("#rules")
    field.evaluate("field => { field.focus(); field.setSelectionRange(field.value.length, field.value.length); }")
    return field
