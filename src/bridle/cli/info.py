"""`bridle info`: which version runs here, on which processor, with which vector instructions."""

from __future__ import annotations

from typing import Any

import typer

from bridle.cli.base import app, json_line, show
from bridle.cli.options import AsJson
from bridle.decoding.threads import cores
from bridle.processor import simd
from bridle.report.tables import versions


@app.command()
def info(as_json: AsJson = False) -> None:
    """Print versions, the processor and the vector instructions in use.

    \b
    The fastest tier that the processor has is chosen when Bridle starts. BRIDLE_SIMD chooses another one: portable,
    baseline, avx2 or avx512. All tiers give the same labels.

    \b
    Examples:
      bridle info
      bridle info --json
      BRIDLE_SIMD=avx2 bridle info

    \b
    Exit codes:
      0    fine
      1    BRIDLE_SIMD names a tier that this processor does not have
      2    bad usage
    """
    here = simd()
    found: dict[str, Any] = {
        **versions(),
        "processor": here.processor,
        "cores": cores(),
        "simd": here.tier,
        "simd_available": list(here.available),
    }
    if as_json:
        typer.echo(json_line(found))
        return
    for name, value in found.items():
        show([f"{name.replace('_', ' '):15} {', '.join(value) if isinstance(value, list) else value}"])
