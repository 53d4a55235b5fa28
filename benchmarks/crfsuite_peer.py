"""CRFsuite as a peer: features made in plain Python, training and tagging through python-crfsuite.

Nothing of Bridle and no NumPy is imported here, so that the peak memory of a process that trains is the peer's alone.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

Sentence = tuple[list[str], list[str], list[str]]  # words, parts of speech, chunk labels


def sentences(path: Path, limit: int | None = None) -> Iterator[Sentence]:
    """The sentences of a packed CoNLL-2000 file, one after the other."""
    return islice(_sentences(path), limit)


def _sentences(path: Path) -> Iterator[Sentence]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows: list[list[str]] = []
        for line in file:
            if row := line.split():
                rows.append(row)
            elif rows:
                words, tags, labels = map(list, zip(*rows, strict=True))
                yield words, tags, labels
                rows = []
        if rows:
            words, tags, labels = map(list, zip(*rows, strict=True))
            yield words, tags, labels


def features(words: list[str], tags: list[str]) -> list[list[str]]:
    """The 19 features of each token as strings, as the tutorials write them but without their slow parts: the window is
    unpacked into names once, no dicts, no joins, one f-string per feature."""
    w = ["<s>", "<s>", *words, "</s>", "</s>"]
    p = ["<s>", "<s>", *tags, "</s>", "</s>"]
    window = zip(w, w[1:], w[2:], w[3:], w[4:], p, p[1:], p[2:], p[3:], p[4:], strict=False)
    return [
        [
            f"w[-2]={a}",
            f"w[-1]={b}",
            f"w[0]={c}",
            f"w[1]={d}",
            f"w[2]={e}",
            f"w[-1]|w[0]={b}|{c}",
            f"w[0]|w[1]={c}|{d}",
            f"p[-2]={q}",
            f"p[-1]={r}",
            f"p[0]={s}",
            f"p[1]={t}",
            f"p[2]={u}",
            f"p[-2]|p[-1]={q}|{r}",
            f"p[-1]|p[0]={r}|{s}",
            f"p[0]|p[1]={s}|{t}",
            f"p[1]|p[2]={t}|{u}",
            f"p[-2]|p[-1]|p[0]={q}|{r}|{s}",
            f"p[-1]|p[0]|p[1]={r}|{s}|{t}",
            f"p[0]|p[1]|p[2]={s}|{t}|{u}",
        ]
        for a, b, c, d, e, q, r, s, t, u in window
    ]


# delta 0: no early end; without it training stops as soon as ten iterations gain little
PARAMETERS: dict[str, dict[str, float]] = {"lbfgs": {"c2": 1.0, "delta": 0.0}, "perceptron": {"epsilon": 0.0}}
NAMES = {"lbfgs": "lbfgs", "perceptron": "ap"}


def train(path: Path, algorithm: str, iterations: int, limit: int | None, model: Path) -> dict[str, Any]:
    """Train on a file, sentence by sentence: the strings of one are gone once CRFsuite has it. Times in seconds."""
    import pycrfsuite  # type: ignore[import-untyped]

    marks: list[float] = []  # the clock at the end of each iteration
    losses: list[float] = []
    seen = {"features": 0, "stored": 0.0}

    class Trainer(pycrfsuite.BaseTrainer):  # type: ignore[misc]
        """One that reads its own log."""

        def message(self, message: str) -> None:
            if message.startswith(("***** Iteration", "***** Epoch")):
                marks.append(time.perf_counter())
            elif message.startswith("Loss: "):
                losses.append(float(message[6:]))
            elif message.startswith("Number of features: "):
                seen["features"] = int(message[20:])
            elif message.startswith("Storing the model"):
                seen["stored"] = time.perf_counter()

    trainer = Trainer(NAMES[algorithm], {**PARAMETERS[algorithm], "max_iterations": iterations})
    began = time.perf_counter()
    making = handing = 0.0
    for words, tags, labels in sentences(path, limit):
        begin = time.perf_counter()
        sequence = features(words, tags)
        middle = time.perf_counter()
        trainer.append(sequence, labels)
        making += middle - begin
        handing += time.perf_counter() - middle
    begin = time.perf_counter()
    trainer.train(str(model))
    return {
        "read": begin - began - making - handing,
        "strings": making,
        "features": making + handing,
        "train": seen["stored"] - begin,
        "marks": marks,
        "losses": losses,
        "n_weights": seen["features"],
    }


def tagger(model: Path) -> Any:
    """A tagger with this model."""
    import pycrfsuite

    opened = pycrfsuite.Tagger()
    opened.open(str(model))
    return opened


def tag(model: Path, path: Path) -> list[list[str]]:
    """The labels of the sentences of a file."""
    opened = tagger(model)
    return [opened.tag(features(words, tags)) for words, tags, _ in sentences(path)]


def weights(tagger: Any) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Return the weights of a tagger, to six decimals: of features with labels, and of labels with the next one."""
    info = tagger.info()
    return info.state_features, info.transitions
