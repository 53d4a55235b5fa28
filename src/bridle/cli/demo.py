"""`bridle demo`: one sentence, without and with rules."""

from __future__ import annotations

from rich.console import Console

from bridle import demo as demonstration
from bridle.cli.base import app, exits


@app.command()
def demo() -> None:
    """Show one sentence labelled without and with rules, which rules bit, and what they cost."""
    with exits():
        console = Console()
        if not console.is_terminal:
            console = Console(width=100)
        demonstration.show(demonstration.tell(), console)
