"""The pictures of the explorer: `python docs/screenshots.py` writes docs/pictures/explorer*.png.

Needs `bridle-nlp[serve]`, Playwright, Pillow and Chromium (`BRIDLE_CHROMIUM`, or `chromium` on the path). A server on
the embedded references is started for it. The pictures show the page as it opens, wide, narrow and dark, and a
correction.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).parent / "pictures"
MOST_BYTES = 250_000
ARGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--hide-scrollbars")
PAGES = {  # name: width, height, colours, whether the whole page is taken
    "explorer": (1440, 1000, "light", False),
    "explorer-dark": (1440, 1000, "dark", True),
    "explorer-tablet": (1024, 1100, "light", False),
    "explorer-phone": (390, 844, "light", False),
}


def take(address: str) -> None:
    """Take the pictures."""
    chromium = os.environ.get("BRIDLE_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGS))
        for name, (width, height, scheme, whole) in PAGES.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(address)
            page.wait_for_selector(".figures tbody tr")
            page.wait_for_selector(".curve")
            page.wait_for_timeout(500)
            write(page.screenshot(full_page=whole), PICTURES / f"{name}.png")
        page = browser.new_page(viewport={"width": 1440, "height": 1600})
        page.goto(address)
        page.wait_for_selector(".figures tbody tr")
        write(correction(page), PICTURES / "explorer-correction.png")
        browser.close()


def correction(page: Any) -> bytes:
    """The result with rules that repair its first mistake."""
    page.select_option("#filter", "wrong")
    page.locator("#sequences button").first.click()
    page.locator("#constrained .token.wrong").first.click()
    page.locator("#correction .pick").first.click()
    page.wait_for_selector(".suggested li")
    top, bottom = page.locator("#result").bounding_box(), page.locator("#correction").bounding_box()
    area = {
        "x": top["x"],
        "y": top["y"],
        "width": top["width"],
        "height": bottom["y"] + bottom["height"] - top["y"] + 8,
    }
    png: bytes = page.screenshot(clip=area)
    return png


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
