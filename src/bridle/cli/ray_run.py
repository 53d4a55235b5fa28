"""`bridle tag --on ray`: the same on a Ray cluster. What follows `ray` says where it is.

--on ray              the cluster that this machine belongs to, or that RAY_ADDRESS names
--on ray:local        a cluster of this machine alone, for this command
--on ray:HOST:PORT    a cluster that this machine belongs to
--on ray://HOST:PORT  a Ray Client server
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import typer

from bridle.cli.base import LOOK, warn
from bridle.errors import FileError
from bridle.extras import needed

_NUMBERS: Mapping[str, Any] = {"actors": int, "num_cpus": float, "batch_size": int, "block_bytes": int}
_TO_LOOK_AT = {"relaxed", "infeasible", "nothing_found", "error"}


def run(model: Path, inputs: Sequence[str], out: str, rules: Sequence[Any], options: Mapping[str, Any]) -> NoReturn:
    """Tag Parquet files on Ray, print what was written, and exit.

    `options` has the address as ``on``, the settings of `bridle.integrations.ray.run` (also as text, as they come from
    ``--on-option``) and the options of `bridle.arrow.Tag`.
    """
    from bridle.integrations.ray import run as run_on_ray

    given = {name: _number(name, value) if name in _NUMBERS else value for name, value in options.items()}
    with _cluster(given.pop("on"), given.get("actors", 2)):
        found = run_on_ray(inputs, out, model, rules, **given)
    told = ", ".join(f"{count:,} {status}" for status, count in sorted(found.status.items()))
    before = f", {found.resumed:,} of them by an earlier run" if found.resumed else ""
    warn(f"finished: {found.rows:,} rows in {out} ({told or 'none'}){before}; checksum of ids {found.checksum:016x}")
    raise typer.Exit(LOOK if found.status.keys() & _TO_LOOK_AT else 0)


@contextmanager
def _cluster(on: str, actors: int) -> Iterator[None]:
    """Be connected to a cluster."""
    ray = needed("ray", "ray", "--on ray needs Ray")
    address = on if on.startswith("ray://") else on.removeprefix("ray").removeprefix(":") or "auto"
    # Ray's processors are what tasks may reserve: a machine with few must still have some beside those of the actors.
    sizes = {"num_cpus": max(os.cpu_count() or 1, actors + 2)} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, **sizes)
    except (ConnectionError, ValueError) as problem:
        got = str(problem).strip().partition("\n")[0]
        wanted = "ray:local, or the address of a running cluster"
        raise FileError(f"cannot reach the cluster of --on {on}", got=got, wanted=wanted) from None
    try:
        yield
    finally:
        ray.shutdown()


def _number(name: str, value: Any) -> Any:
    try:
        return _NUMBERS[name](value)
    except ValueError:
        raise FileError(f"--on-option {name} is not a number", got=repr(value), wanted=f"{name}=NUMBER") from None
