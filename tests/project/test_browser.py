"""Pages in a real browser: nothing is fetched, nothing is wider than the window, no texts overlap, dark mode is dark.

Needs Chromium or Chrome on the PATH; one start per page, which looks and measures at once.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridle import Decoder, Labels, Lattice, demo
from bridle import rules as r
from bridle.explain import Explanation
from bridle.explain.impact import impact
from bridle.explain.page import impact_page
from bridle.report.page import Page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
WIDTH, HEIGHT = 1000, 900
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--window-size={WIDTH},{HEIGHT}",
]
DARK = ["--blink-settings=preferredColorScheme=0"]

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser: apt install chromium")

# Written into a copy of the page; what it finds comes back in the dumped document.
MEASURE = """<script>
const scrolls = e => e && (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
const box = e => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
const all = [...document.body.querySelectorAll('*')];
const texts = [...document.querySelectorAll('svg.trellis text')].filter(e => e.textContent.trim());
const apart = ([a, b, c, d], [e, f, g, h]) => c - 1 <= e || g - 1 <= a || d - 2 <= f || h - 2 <= b;
const overlaps = [];
texts.forEach((one, k) => texts.slice(k + 1).forEach(other => {
  if (one.closest('svg') === other.closest('svg') && !apart(box(one), box(other)))
    overlaps.push(one.textContent + ' | ' + other.textContent);
}));
const found = {
  wide: all.filter(e => box(e)[2] > innerWidth + 1 && !scrolls(e)).map(e => e.outerHTML.slice(0, 80)),
  page: document.documentElement.scrollWidth - innerWidth,
  outside: texts.filter(e => { const s = box(e.closest('svg')), b = box(e);
    return b[0] < s[0] - 1 || b[1] < s[1] - 1 || b[2] > s[2] + 1 || b[3] > s[3] + 1; }).map(e => e.textContent),
  overlaps: overlaps, fetched: performance.getEntriesByType('resource').length,
  dark: matchMedia('(prefers-color-scheme: dark)').matches, ink: getComputedStyle(document.body).color,
  paper: [document.body, ...document.querySelectorAll('.trellis .paper')].map(e =>
    getComputedStyle(e)[e === document.body ? 'backgroundColor' : 'fill']),
};
document.body.dataset.found = JSON.stringify(found);
</script>"""


def random_labelling(n: int, m: int) -> tuple[Explanation, list[str]]:
    """Long words, long names of labels, many rules."""
    rng = np.random.default_rng(3)
    types = ["PERSON", "LOCATION", "ORGANISATION", "DATE", "TIME", "MONEY", "EVENT", "WORK", "LAW"][: (m - 1) // 2]
    labels = Labels(["O", *(f"{tag}-{name}" for name in types for tag in "BI")], scheme="BIO")
    unary = rng.normal(size=(n, len(labels))) * 1.5
    unary[:, 0] += 3.5
    rules = [r.well_formed(), r.no_duplicates(of=types[:4]), r.before("PERSON", "LOCATION").soft(1.2)]
    words = ["the", "of", "Committee", "international", "Donaudampfschifffahrtsgesellschaft", "北京市", "WWW", "iiii"]
    explanation = Decoder(labels, rules).explain(Lattice(unary, rng.normal(size=(len(labels), len(labels))) * 0.3))
    return explanation, [words[k] for k in rng.integers(0, len(words), n)]


@cache
def short() -> tuple[Explanation, list[str]]:
    return random_labelling(9, 7)


def explained() -> str:
    output, tokens = short()
    return output.html(tokens, gold=output.plain.labels)


def long() -> str:
    output, tokens = random_labelling(60, 19)
    return output.html(tokens, show="all")


def pictures() -> str:
    """Small ones: what stands below them is wider than they are."""
    page = Page("Pictures")
    for output, tokens in (random_labelling(1, 5), random_labelling(2, 5), random_labelling(0, 5)):
        page.picture(output.svg(tokens, gold=output.plain.labels))
    return page.html()


def summary() -> str:
    output, _ = short()
    lattices = [output.lattice] * 3
    impacts = impact(output.decoder, lattices, gold=[output.best.labels] * 3, threads=1)
    return impact_page(impacts, ["a", "b", "<c>"], title="A data set", look="bridle explain ...").html()


def demonstration() -> str:
    return demo.page(demo.run())


PAGES: dict[str, tuple[Callable[[], str], list[str]]] = {
    "explanation": (explained, []),
    "explanation, dark": (explained, DARK),
    "long explanation": (long, []),
    "small pictures": (pictures, []),
    "impact": (summary, []),
    "demo": (demonstration, []),
}


def looked_at(html: str, folder: Path, flags: list[str]) -> tuple[dict[str, Any], str, bytes]:
    """Return the measurements of the script, the document, and the screenshot."""
    page, shot = folder / "page.html", folder / "page.png"
    page.write_text(html.replace("</body>", MEASURE + "</body>"), encoding="utf-8")
    asked = [f"--user-data-dir={folder / 'profile'}", f"--screenshot={shot}", "--dump-dom", page.as_uri()]
    done = subprocess.run([str(BROWSER), *FLAGS, *flags, *asked], capture_output=True, timeout=60, check=True)
    document = done.stdout.decode()
    match = re.search(r'data-found="([^"]*)"', document)
    assert match, "the browser ran no script"
    return json.loads(unescape(match[1])), document, shot.read_bytes()


def pixels(png: bytes) -> tuple[int, int, bytes]:
    """Width, height and (filtered) bytes of the pixels."""
    at, data, size = 8, b"", (0, 0)
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        if kind == b"IHDR":
            size = struct.unpack(">II", png[at + 8 : at + 16])
        if kind == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    return *size, zlib.decompress(data)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_looks_right(name: str, tmp_path: Path) -> None:
    make, flags = PAGES[name]
    html = make()
    assert re.findall(r"<script|<link|<img|<iframe|\bsrc=|\bhref=\"(?!#)|url\(|@import", html) == []
    result, document, png = looked_at(html, tmp_path, flags)
    assert result["fetched"] == 0
    assert (result["wide"], result["page"]) == ([], 0)
    assert (result["outside"], result["overlaps"]) == ([], [])
    assert result["dark"] == (flags == DARK)
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) > 382 for colour in (result["ink"], *result["paper"])]
    assert light == [result["dark"], *[not result["dark"]] * len(result["paper"])]
    if "explanation" in name:
        assert document.count('class="best"') > 1 and document.count('class="plain"') > 1
        assert len(result["paper"]) == 2
    width, height, data = pixels(png)
    assert (width, height) == (WIDTH, HEIGHT) and len(set(data)) > 50
