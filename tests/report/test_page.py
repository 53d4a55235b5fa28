"""The page: one file, nothing fetched, what users wrote is escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from bridle.labels import Labels
from bridle.report.page import OUTSIDE, Page, fills

VOID = {"meta", "br", "img"}


class Balance(HTMLParser):
    """Every element that opens is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(page: Page) -> Balance:
    balance = Balance()
    balance.feed(page.html())
    assert balance.open == []
    return balance


def everything(evil: str) -> Page:
    colours = fills(["O", "A"])
    page = Page(evil, evil).heading(evil, 3).text(evil, "bad").code(evil).table([evil, "n"], [[evil, 1], ["b", "2.5"]])
    page.legend({evil: "#fff"}).tokens([evil, "x"], ["A", evil], colours, name=evil, wrong=[0])
    return page.picture('<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"></svg>', evil)


def test_what_users_wrote_is_escaped() -> None:
    evil = '<script>alert("x")</script>'
    page = everything(evil)
    assert "<script" not in page.html()
    assert parsed(page).text.count(evil) >= 7


def test_what_no_file_can_hold_is_replaced() -> None:
    html = everything("a\x00\x1b\ud800b").html()
    html.encode()
    assert "a\ufffd\ufffd\ufffdb" in html and not {"\x00", "\x1b"} & set(html)
    assert "<pre>a\n\tb</pre>" in Page("t").code("a\n\tb").html()


def test_nothing_is_fetched() -> None:
    html = everything("plain").html()
    assert re.findall(r"(?:src|href)=|@import|url\(", html) == []
    assert "<?xml" not in html


def test_numbers_stand_right() -> None:
    html = Page("t").table(["name", "n"], [["a", "1,200"], ["b", "+3.5 %"]], best=1).html()
    assert html.count('<td class="number">') == 2
    assert '<tr class="best"><td>b' in html


def test_an_empty_table_is_a_table() -> None:
    parsed(Page("t").table(["a", "b"], []))


def test_colours() -> None:
    built = fills(Labels(["O", "B-A", "I-A", "B-B", "E-B"], scheme="BIOES"))
    assert built["O"] == OUTSIDE
    assert built["B-A"] == built["I-A"] != built["B-B"] == built["E-B"]
    plain = fills(Labels(["O", "E-MAIL", "MAIL", "S-BAHN", "BAHN", "I-X", "X"], scheme="IO"))
    assert len({plain[name] for name in ("E-MAIL", "MAIL", "S-BAHN", "BAHN")}) == 4 and plain["I-X"] == plain["X"]
    assert len(set(fills(["O", "B-A", "I-A"]).values())) == 3
    assert len(set(fills([f"L{k}" for k in range(12)]).values())) == 12
