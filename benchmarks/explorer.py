"""Time from a key in the explorer to the new result, with 600 references loaded; and with 150 rules.

    python benchmarks/explorer.py

A server on the embedded references and Chromium (`BRIDLE_CHROMIUM`, or `chromium` on the path) run on this machine. A
key is pressed when the page is at rest: a digit of the penalty of a rule, so that the result and the figures change.

result      from the key to the frame after the result under the new rules was drawn
echo        from the key to the frame after it, with 150 rules in the editor
totals      from the key to the F1 of all 600 references, with 150 rules

Beside the time on the clock stands the processor time of the server and of all processes of the browser until then. It
does not depend on how busy the machine is, and is more than what a user waits for: much of it runs side by side.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ARGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")

# Presses a key; `until` says what is waited for. Returns milliseconds.
PRESS = """
async ({key, until}) => {
  const field = document.querySelector("#rules"), at = field.value.lastIndexOf("]");
  const seen = until && document.querySelector(until);
  field.focus();
  field.setSelectionRange(at - 1, at);
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));  // the caret is there before the key
  const drawn = !seen ? null : new Promise((done) => {
    const watch = new MutationObserver(() => { watch.disconnect(); requestAnimationFrame(() => setTimeout(done)); });
    watch.observe(seen, {childList: true, subtree: true, characterData: true});
  });
  const begun = performance.now();
  document.execCommand("insertText", false, key);
  await (drawn ?? new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
  return performance.now() - begun;
}
"""


def processor_ms() -> float:
    """Processor time of all descendants of this process: the server and the browser."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    family, total = {os.getpid()}, 0
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    for pid in family - {os.getpid()}:
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):
                total += int(task.read_text().split()[0])
    return total / 1e6


def report(name: str, times: list[tuple[float, float]]) -> None:
    """Print the median and the 95th percentile."""
    parts = []
    for values in zip(*times, strict=True):
        ordered = sorted(values)
        last = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
        parts.append(f"p50 {statistics.median(ordered):6.1f}, p95 {last:6.1f} ms")
    print(f"{name:8} clock {parts[0]}   processor {parts[1]}   ({len(times)} keys)")


KEYS = cycle("123456789")  # each differs from the one before: a key that changes nothing has no result


def press(page: Any, count: int, until: str | None, pause: int) -> list[tuple[float, float]]:
    """Press keys in turn; return the time on the clock, and processor time, for each."""
    times = []
    for _ in range(count):
        page.wait_for_timeout(pause)
        before = processor_ms()
        clock = page.evaluate(PRESS, {"key": next(KEYS), "until": until})
        times.append((clock, processor_ms() - before))
    return times


def measure(page: Any, count: int) -> None:
    """Press keys and print the times."""
    rules = page.input_value("#rules")
    page.fill("#rules", rules + "no duplicates of O, TITLE  [penalty 9]\n")
    page.wait_for_timeout(2500)
    report("result", press(page, count, "#proof", 1500))
    words = page.evaluate(
        """() => [...new Set([...document.querySelectorAll("#sequences .words")]
          .flatMap((one) => one.textContent.match(/[A-Za-z]{4,}/g) ?? []))].slice(0, 141)"""
    )
    more = "".join(f"forbid DATE at tokens /{word}/  [penalty 0]\n" for word in words)
    page.fill("#rules", rules + more)
    page.wait_for_timeout(10_000)
    report("echo", press(page, count, None, 4000))
    report("totals", press(page, count // 3, "#scores", 8000))


def main() -> None:
    """Start a server and a browser, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=40, help="keys of each kind")
    count = parser.parse_args().keys
    chromium = os.environ.get("BRIDLE_CHROMIUM") or shutil.which("chromium")
    command = [sys.executable, "-m", "bridle", "explore", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        try:
            address = next(match.group() for line in server.stderr or () if (match := re.search(r"http://\S+/", line)))
            browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGS))
            page = browser.new_page(viewport={"width": 1440, "height": 1000})
            page.goto(address)
            page.wait_for_selector(".figures tbody tr")
            measure(page, count)
            browser.close()
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
