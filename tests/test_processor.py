"""Tiers of vector instructions: which one is in use, forcing one, and the same answers on all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

import bridle
from commands import Cli

ANSWERS = """
import json, numpy as np, bridle
from bridle import rules as r

rng = np.random.default_rng(3)
found = []
for m, scheme in ((3, None), (9, None), (33, "BIO"), (33, "BIOES"), (48, None), (65, None), (130, None)):
    if scheme:
        kinds = [f"K{k}" for k in range(16 if scheme == "BIO" else 8)]
        names = ["O", *(f"{tag}-{kind}" for kind in kinds for tag in ("BI" if scheme == "BIO" else "BIES"))]
    else:
        names = [f"L{k}" for k in range(m)]
    labels = bridle.Labels(names, scheme)
    rules = [r.well_formed()] if scheme else [r.no_duplicates(of=names[:2])]
    for dtype in (np.float32, np.float64):
        for pairwise in (None, rng.normal(size=(m, m)), rng.integers(-1, 2, size=(m, m))):  # the last with many ties
            unary = rng.integers(-2, 3, size=(60, m)) if pairwise is None else rng.normal(size=(60, m))
            batch = bridle.Batch(unary.astype(dtype), [0, 20, 20, 27, 60], pairwise, start=rng.normal(size=m))
            for some in ([], rules):
                decodings = bridle.Decoder(labels, some).decode_batch(batch, threads=1)
                found.append([decodings.ids.tolist(), decodings.scores.tolist(), decodings.bounds.tolist()])
print(json.dumps([bridle.simd().tier, found]))
"""


def python(code: str, tier: str | None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "BRIDLE_SIMD": tier} if tier is not None else os.environ
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)


@cache
def answers(tier: str) -> Any:
    done = python(ANSWERS, tier)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_tier_in_use_is_one_that_exists() -> None:
    here = bridle.simd()
    assert here.tier in here.available and here.available[0] == "portable"
    assert here.processor and here.tier in str(here)
    asked = os.environ.get("BRIDLE_SIMD")
    assert here.tier == (asked or here.available[-1])


@pytest.mark.parametrize("tier", bridle.simd().available)
def test_all_tiers_give_the_same_answers_to_the_bit(tier: str) -> None:
    name, result = answers(tier)
    assert name == tier
    assert result == answers("portable")[1]


@pytest.mark.parametrize("tier", ["avx1024", "AVX2", " "])
def test_a_tier_that_is_not_there_is_an_error_at_first_use(tier: str) -> None:
    done = python("import bridle; bridle.Decoder", tier)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: BRIDLE_SIMD is '{tier}', expected one of portable")
    assert last.endswith("Unset it to use the fastest.")


def test_info(run: Cli) -> None:
    shown = run("info")
    assert shown.exit_code == 0 and bridle.simd().processor in shown.stdout and "simd available" in shown.stdout
    document = json.loads(run("info", "--json").stdout)
    assert document["bridle"] == bridle.__version__
    assert (document["simd"], tuple(document["simd_available"])) == (bridle.simd().tier, bridle.simd().available)


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
@pytest.mark.parametrize("pairwise", [None, "noise"])
def test_a_long_sequence_whose_rows_are_made_twice(scheme: Any, pairwise: str | None) -> None:
    rng = np.random.default_rng(1)
    names = ["O", *(f"{tag}-{kind}" for kind in "ABCDEFGH" for tag in ("BI" if scheme == "BIO" else "BIES"))]
    labels = bridle.Labels(names, scheme)
    n, m = 20_000, len(names)
    lattice = bridle.Lattice(rng.normal(size=(n, m)), None if pairwise is None else rng.normal(size=(m, m)))
    step, first, last = (np.where(allowed, 0.0, -np.inf) for allowed in labels.allowed)
    into = (step if lattice.pairwise is None else step + lattice.pairwise).T.copy()
    best = lattice.unary[0] + first
    for row in lattice.unary[1:]:
        best = (into + best).max(axis=1) + row
    decoding = bridle.Decoder(labels, [bridle.rules.well_formed()]).decode(lattice)
    assert decoding.score == pytest.approx(float((best + last).max()), rel=1e-12)
    assert lattice.score(decoding.ids) == pytest.approx(decoding.score, rel=1e-12)
    assert decoding.optimal and bridle.rules.well_formed().holds(decoding.ids, labels)
