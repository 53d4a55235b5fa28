"""Part-of-speech taggers that people use, trained on the same data. None of them is needed; ImportError: not there."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

X = list[dict[str, list[str]]]
Y = list[list[str]]
Peer = Callable[[X], Y]


def nltk(train: tuple[X, Y], iterations: int, seed: int) -> Peer:
    """NLTK's averaged perceptron, with its own features."""
    from nltk.tag.perceptron import PerceptronTagger

    state = random.getstate()
    random.seed(seed)  # NLTK shuffles by the global generator
    try:
        tagger = PerceptronTagger(load=False)
        tagger.train([list(zip(x["word"], y, strict=True)) for x, y in zip(*train, strict=True)], nr_iter=iterations)
    finally:
        random.setstate(state)
    return lambda xs: [[tag for _, tag in tagger.tag(x["word"])] for x in xs]


def crfsuite(train: tuple[X, Y], iterations: int, seed: int) -> Peer:
    """CRFsuite's averaged perceptron, with the features that ours has (making them counts as tagging)."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
    trainer.set_params({"max_iterations": iterations})
    for x, y in zip(*train, strict=True):
        trainer.append(strings(x["word"]), y)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        trainer.train(path)
        content = Path(path).read_bytes()
    tagger: Any = pycrfsuite.Tagger()
    tagger.open_inmemory(content)
    return lambda xs: [tagger.tag(strings(x["word"])) for x in xs]


def strings(words: list[str]) -> list[list[str]]:
    """Ratnaparkhi's features as CRFsuite takes them: the set `pos` of Bridle."""
    padded = ["<s>", "<s>", *words, "</s>", "</s>"]
    out = []
    for t, word in enumerate(words):
        window = [f"{k}={padded[t + k + 2]}" for k in range(-2, 3)]
        ends = [f"p{k}={word[:k]}" for k in range(1, 5)] + [f"s{k}={word[-k:]}" for k in range(1, 5)]
        flags = [
            name
            for name, there in (
                ("digit", any(map(str.isdigit, word))),
                ("upper", any(map(str.isupper, word))),
                ("hyphen", "-" in word),
            )
            if there
        ]
        out.append([*window, *ends, *flags])
    return out


PEERS: dict[str, Callable[[tuple[X, Y], int, int], Peer]] = {
    "NLTK, averaged perceptron": nltk,
    "CRFsuite, averaged perceptron": crfsuite,
}
