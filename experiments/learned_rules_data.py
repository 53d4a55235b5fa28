"""Nine labelled data sets for `learned-rules`: how each is read and split, and rules written for it.

Training sets are small, as those of most people are. Sequences with equal words are on one side of a split; running
text is split by stretches of the file, so that a document is mostly on one side too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from bridle import data
from bridle import rules as r
from bridle.rules import Rule
from experiments.addresses import us50, usaddress
from experiments.base import Run
from experiments.citations import anystyle, parscit, references
from experiments.fields import Fields, shares

Split = Callable[[Run, int], tuple[Fields, Fields]]  # a seed -> training and test sequences
_STRETCHES = 40  # of running text
_MOST = 2000  # test sequences


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set and how it is used."""

    name: str
    split: Split
    features: str
    written: tuple[Rule, ...]  # by hand, not adjusted to any result

    def rules(self, train: Fields) -> list[Rule]:
        """The written rules whose labels the training sequences have."""
        known = set(chain.from_iterable(train.y))
        known |= {label.partition("-")[2] for label in known if "-" in label}
        named = [(rule, {name for names in rule.names() for name in names.items}) for rule in self.written]
        return [rule for rule, names in named if names <= known]


def _random(whole: Fields, size: int, seed: int) -> tuple[Fields, Fields]:
    inside, outside = shares(whole, [size, len(whole) - size], seed)
    if len(outside) > _MOST:
        outside = sorted(np.random.default_rng(seed).choice(outside, _MOST, replace=False).tolist())
    return whole.part(inside), whole.part(outside)


def _by_stretches(whole: Fields, size: int, seed: int) -> tuple[Fields, Fields]:
    stretch = np.arange(len(whole)) * _STRETCHES // len(whole)
    order = np.random.default_rng(seed).permutation(_STRETCHES)
    inside = np.isin(stretch, order[: round(size / len(whole) * _STRETCHES)])
    return whole.part(np.flatnonzero(inside).tolist()), whole.part(np.flatnonzero(~inside)[:_MOST].tolist())


def _sample(train: Fields, test: Fields, size: int, seed: int) -> tuple[Fields, Fields]:
    chosen = np.random.default_rng(seed).choice(len(train), min(size, len(train)), replace=False)
    return train.part(sorted(chosen.tolist())), test


def _cora(run: Run, seed: int) -> tuple[Fields, Fields]:
    return _random(references(run.file("citations-cora", "tagged_references.txt"), "punctuation"), 350, seed)


def _joined(*parts: Fields) -> Fields:
    return Fields([x for part in parts for x in part.X], [y for part in parts for y in part.y])


def _us50(run: Run, seed: int) -> tuple[Fields, Fields]:
    return _random(_joined(us50(run, "train", "blanks"), us50(run, "test", "blanks")), 150, seed)


def _usaddress(run: Run, seed: int) -> tuple[Fields, Fields]:
    return _random(_joined(usaddress(run, "train"), usaddress(run, "test")), 1000, seed)


def _conll(path: Path, *columns: str) -> Fields:
    return Fields(*data.load(path, "conll", columns=[*columns, "label"], label="label"))


def _wikigold(run: Run, seed: int) -> tuple[Fields, Fields]:
    return _by_stretches(_conll(run.file("ner-wikigold", "wikigold.conll.txt.gz"), "word"), 1100, seed)


def _ewt(run: Run, seed: int) -> tuple[Fields, Fields]:
    parts = (run.file("pos-ewt", f"en_ewt-ud-{name}.conllu.gz") for name in ("train", "test"))
    train, test = (Fields(*data.load(path, "conllu", label="xpos")) for path in parts)
    return _sample(train, test, 1500, seed)


def _ptb(run: Run, seed: int) -> tuple[Fields, Fields]:
    return _by_stretches(_conll(run.file("pos-ptb-sample", "wsj_0001-0199.pos.gz"), "word"), 1500, seed)


def _chunks(run: Run, seed: int) -> tuple[Fields, Fields]:
    parts = (run.file("chunk-conll2000", f"{name}.txt.gz") for name in ("train", "test"))
    train, test = (_conll(path, "word", "pos") for path in parts)
    return _sample(train, test, 1500, seed)


_YEAR, _RANGE = r.tokens(r"\(?(19|20)\d\d[a-z]?\W*"), r.tokens(r"\d+(-+|–)\d+\W*")
REFERENCES = (
    r.no_duplicates(of=["author", "title", "journal", "booktitle", "pages", "volume"]),
    r.present("title"),
    r.before("author", "title"),
    r.before("title", ["journal", "booktitle", "pages", "volume"]),
    ~(r.present("journal") & r.present("booktitle")),
    r.fix("date", _YEAR).soft(2),
    r.fix("pages", _RANGE).soft(2),
)
ADDRESSES = (
    r.no_duplicates(of=["Civic Number", "Street", "City", "State", "Zip Code"]),
    r.present("City"),
    r.before("Street", ["City", "State", "Zip Code"]),
    r.before("City", ["State", "Zip Code"]),
    r.fix("Zip Code", r.tokens(r"\d{5}(-\d{4})?")).soft(2),
)
US_ADDRESSES = (
    r.no_duplicates(of=["AddressNumber", "PlaceName", "StateName", "ZipCode"]),
    r.if_present("StreetNamePostType", then="StreetName"),
    r.if_present("OccupancyType", then="OccupancyIdentifier"),
    r.if_present("USPSBoxType", then="USPSBoxID"),
    r.before("AddressNumber", "StreetName"),
    r.before("PlaceName", ["StateName", "ZipCode"]),
    r.fix("ZipCode", r.tokens(r"\d{5}(-\d{4})?")).soft(2),
)
ENTITIES = (
    r.fix("O", r.tokens(r"[;:()?!]")),
    r.ends_with("O").soft(1),
    r.fix("O", r.tokens(r"[a-z]+ly")).soft(2),
)
TAGS = (
    r.fix(",", r.tokens(",")),
    r.fix(".", r.tokens(r"[.?!]")),
    r.forbid_transition("DT", ["VBZ", "VBD", "IN"]),
    r.forbid_transition("MD", ["VBZ", "VBD"]),
    r.forbid_transition("TO", ["VBZ", "VBD"]),
    r.fix("CD", r.tokens(r"\d+([.,]\d+)*")).soft(2),
)
CHUNKS = (
    r.well_formed(),
    r.fix("O", r.tokens(r"[.;:?!]")),
    r.present("NP").soft(1),
    r.fix("B-PRT", r.tokens("(?i)up|out")).soft(1),
)

SETS = (
    DataSet("references: Cora", _cora, "fields", REFERENCES),
    DataSet(
        "references: AnyStyle", lambda run, seed: _random(anystyle(run, "blanks"), 1500, seed), "fields", REFERENCES
    ),
    DataSet("references: ParsCit", lambda run, seed: _random(parscit(run, "blanks"), 450, seed), "fields", REFERENCES),
    DataSet("addresses: US50", _us50, "fields", ADDRESSES),
    DataSet("addresses: usaddress", _usaddress, "fields", US_ADDRESSES),
    DataSet("entities: Wikigold", _wikigold, "pos", ENTITIES),
    DataSet("part of speech: EWT", _ewt, "pos", TAGS),
    DataSet("part of speech: Penn sample", _ptb, "pos", TAGS),
    DataSet("chunks: CoNLL-2000", _chunks, "chunking", CHUNKS),
)
SMALL = 1000  # training sequences up to which regularisation is compared with a grid of fixed values
