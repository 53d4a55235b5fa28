"""The picture of README.md: `python docs/picture.py` writes docs/pictures/explain.svg.

    I left my pearls to my daughter-in-law in my will .
    A0     A1-------- A2------------------ AM-LOC----

A sentence after Roth & Yih (2005). The scores are what a local classifier might say: mostly right, sure of some
mistakes, and blind to the whole.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import bridle
from bridle.rules import parse

PICTURE = Path(__file__).parent / "pictures" / "explain.svg"
TOKENS = ("I", "left", "my", "pearls", "to", "my", "daughter-in-law", "in", "my", "will", ".")
LABELS = bridle.Labels(["O", "A0", "A1", "A2", "A3", "AM-LOC"], scheme="IO")
GIVEN = {
    "verb": 1,
    "candidates": [(0, 1), (2, 4), (4, 7), (7, 10)],  # what a parser proposes as arguments, ends not included
    "frame": ["A0", "A1", "A2"],  # leave.02 "give": the giver, the thing given, who gets it
}
RULES = (
    "no duplicates of A0, A1, A2, A3",
    "same label over given candidates",
    "at least 1 segment of A0, A1, A2, A3",
    "label at given verb is O",
    "allow O, AM-LOC, given frame",
)
SCORES = [
    # O    A0    A1    A2    A3    AM-LOC
    [0.06, 0.78, 0.09, 0.03, 0.02, 0.02],  # I
    [0.38, 0.02, 0.52, 0.04, 0.03, 0.01],  # left              taken for an argument
    [0.16, 0.07, 0.61, 0.12, 0.02, 0.02],  # my
    [0.09, 0.05, 0.72, 0.10, 0.03, 0.01],  # pearls
    [0.22, 0.01, 0.07, 0.55, 0.09, 0.06],  # to
    [0.13, 0.06, 0.42, 0.35, 0.02, 0.02],  # my                cuts the candidate
    [0.06, 0.06, 0.36, 0.48, 0.02, 0.02],  # daughter-in-law
    [0.18, 0.01, 0.11, 0.03, 0.40, 0.27],  # in                not in the frame of the verb
    [0.28, 0.01, 0.32, 0.01, 0.19, 0.19],  # my                cuts the candidate; a second A1
    [0.08, 0.02, 0.45, 0.02, 0.22, 0.21],  # will
    [0.94, 0.012, 0.012, 0.012, 0.012, 0.012],  # .
]


def svg() -> str:
    """The sentence, explained."""
    decoder = bridle.Decoder(LABELS, [parse(text) for text in RULES])
    return decoder.explain(bridle.Lattice(np.log(np.array(SCORES))), GIVEN).svg(TOKENS)


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(svg(), encoding="utf-8")
