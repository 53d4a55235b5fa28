"""Time from a key in the explorer to the new result, with 600 references loaded; and with 150 rules.

    python benchmarks/explorer.py

A server on the embedded references and Chromium (`BRIDLE_CHROMIUM`, or `chromium` on the path) run on this machine. A
key is pressed when the page is at rest: a digit of the penalty of a rule, so that the result and the figures change.

result      from the key to the frame after the result under the new rules was drawn
echo        from the key to the frame after it, with 150 rules in the editor
totals      from the key to the F1 of all 600 references, with 150 rules
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
from typing import Any

from playwright.sync_api import sync_playwright

ARGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking")

# Presses keys in turn; `until` says what is waited for after each. Returns milliseconds.
PRESS = """
async ({keys, until, pause}) => {
  const field = document.querySelector("#rules"), times = [];
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const seen = until && document.querySelector(until);
  for (const key of keys) {
    const at = field.value.lastIndexOf("]");
    field.focus();
    field.setSelectionRange(at - 1, at);
    const drawn = !seen ? null : new Promise((done) => {
      const watch = new MutationObserver(() => { watch.disconnect(); requestAnimationFrame(() => setTimeout(done)); });
      watch.observe(seen, {childList: true, subtree: true, characterData: true});
    });
    const begun = performance.now();
    document.execCommand("insertText", false, key);
    await (drawn ?? new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
    times.push(performance.now() - begun);
    await wait(pause);
  }
  return times;
}
"""


def report(name: str, times: list[float]) -> None:
    """Print the median and the 95th percentile."""
    ordered = sorted(times)
    last = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    print(f"{name:8} p50 {statistics.median(times):6.1f} ms   p95 {last:6.1f} ms   ({len(times)} keys)")


def measure(page: Any, count: int) -> None:
    """Press keys and print the times."""
    keys = [str(k % 9 + 1) for k in range(count)]
    rules = page.input_value("#rules")
    page.fill("#rules", rules + "no duplicates of O, TITLE  [penalty 1]\n")
    page.wait_for_timeout(2500)
    report("result", page.evaluate(PRESS, {"keys": keys, "until": "#proof", "pause": 700}))
    words = page.evaluate(
        """() => [...new Set([...document.querySelectorAll("#sequences .words")]
          .flatMap((one) => one.textContent.match(/[A-Za-z]{4,}/g) ?? []))].slice(0, 141)"""
    )
    more = "".join(f"forbid DATE at tokens /{word}/  [penalty 1]\n" for word in words)
    page.fill("#rules", rules + more)
    page.wait_for_timeout(6000)
    report("echo", page.evaluate(PRESS, {"keys": keys, "until": None, "pause": 700}))
    totals = page.evaluate(PRESS, {"keys": keys[: count // 3], "until": "#scores", "pause": 4000})
    report("totals", totals)


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
