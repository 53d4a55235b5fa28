"""The pictures of the explorer: `python docs/screenshots.py` writes docs/pictures/explorer.png and explorer-dark.png.

Needs `bridle-nlp[serve]`, Playwright, Pillow and Chromium (`BRIDLE_CHROMIUM`, or `chromium` on the path). A server on
the embedded references is started for it. The pictures show a reference that the rules correct, and what the rules do
to all of them: the first one as the page opens, the dark one down to the table of figures.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
import zlib
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).parent / "pictures"
WIDTH, HEIGHT = 1400, 1060
MOST_BYTES = 250_000
LENGTHS = range(24, 36)  # tokens of the reference that is shown
ARGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--hide-scrollbars")


def asked(url: str, body: object = None) -> Any:
    """The answer of the server as JSON."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)


def telling(address: str) -> int:
    """The sequence that shows most: several rules change it, and more of its labels become right than in others."""
    sample, rules = asked(f"{address}data/sample"), asked(f"{address}model")["rules"]
    improved = asked(f"{address}evaluate", {"data": sample["id"], "rules": rules})["improved"]
    best = (0, 0, 0)
    for k in improved:
        sequence = sample["sequences"][k]
        if len(sequence["tokens"]) not in LENGTHS:
            continue
        explanation = asked(f"{address}explain", {"tokens": sequence["tokens"], "rules": rules, "k": 0})
        gold, plain, ruled = sequence["labels"], explanation["plain"]["labels"], explanation["best"]["labels"]
        wrong = sum(y != z for y, z in zip(gold, ruled, strict=True))
        gain = sum(y != z for y, z in zip(gold, plain, strict=True)) - wrong
        best = max(best, (min(len(explanation["effects"]), 3), gain - wrong, k))
    return best[-1]


def link(state: object) -> str:
    """The fragment of a permalink (see static/state.js)."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(json.dumps(state).encode()) + packer.flush()
    return "#v1." + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def take(address: str) -> None:
    """Take the pictures: light, one screen; dark, the whole page."""
    chromium = os.environ.get("BRIDLE_CHROMIUM") or shutil.which("chromium")
    fragment = link({"sample": telling(address)})
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGS))
        for name, scheme, whole in (("explorer", "light", False), ("explorer-dark", "dark", True)):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
            page.goto(address + fragment)
            page.wait_for_selector("#figures tbody tr")
            page.wait_for_selector("#constrained .changed")
            page.wait_for_timeout(500)
            write(page.screenshot(full_page=whole), PICTURES / f"{name}.png")
        browser.close()


def write(png: bytes, path: Path) -> None:
    """Write a picture with as many colours as its size allows."""
    for colours in (256, 128, 64, 32):
        small = io.BytesIO()
        picture = Image.open(io.BytesIO(png)).convert("RGB")
        picture.quantize(colours, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
        if small.tell() < MOST_BYTES:
            break
    path.write_bytes(small.getvalue())
    print(f"{path}: {small.tell():,} bytes, {picture.width} x {picture.height}, {colours} colours")


def main() -> None:
    """Start a server, take the pictures, stop it."""
    command = [sys.executable, "-m", "bridle", "explore", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            for line in server.stderr or ():
                if match := re.search(r"http://\S+/", line):
                    take(match.group())
                    break
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
