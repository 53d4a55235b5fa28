"""Every kind of file that Bridle reads: seed files that its own writers make, and a door that reads one to its end.

A format of labelled sequences that is added to `bridle.data` is covered automatically.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import bridle
from bridle.data import Example, formats, open_scores, read, save_scores, write
from bridle.integrations import crfsuite
from bridle.learn import ConstrainedTagger, DeterministicRules
from bridle.models import CrossFit
from bridle.models.record import read_record
from bridle.rules.lint import lint
from bridle.rules.loading import load_lines, read_text
from crfsuite_writer import SMALL, crfsuite_file

TRAP = "BRIDLE_FUZZ_TRAP"  # if it is set in the environment, there is one more door, with all kinds of findings
LABELS = ["O", "A", "B"]
JSON = ("jsonl", "doccano", "labelstudio", "spans")
COLUMNS = [
    {"word": ["He", "left", "12", "Elm,"], "pos": ["PRP", "VBD", "CD", "NN"]},
    {"word": ["上", "海"], "pos": ["NR", "NR"]},
    {"word": ["He", "stayed", "left"], "pos": ["PRP", "VBD", "VBD"]},
    {"word": ["a", "b", "c", "d", "e"], "pos": ["X"] * 5},
]
GOLD = [["O", "A", "B", "B"], ["A", "B"], ["O", "A", "A"], ["O", "O", "A", "B", "O"]]
RULES = r"""# orders
no duplicates of A, B
at most 2 segments of A                  [penalty 0.5 per violation]
A before B  [penalty 2.3]   # held in 348 of 350
fix B at tokens /\d{2}/
allow A, B at -1
same label over 0:2
(present A) implies (label at 0 is O)
not (exactly 1 token of B) or starts with A
matches "O* A? (B|O)*"
if A then B
"""


@dataclass(frozen=True)
class Door:
    """A kind of file. `kind` says how to change it: text, json, npz, table, model or crfsuite."""

    kind: str
    suffix: str
    make: Callable[[Path], Iterable[Path]]  # writes seed files into a folder
    read: Callable[[str], object]


def doors() -> dict[str, Door]:
    """Return all readers by name."""
    labelled = {name: _labelled(name) for name in formats()}
    if os.environ.get(TRAP):
        labelled["trap"] = Door("text", ".trap", lambda folder: _texts(folder, "fine"), _trap)
    return labelled | {
        "model": Door("model", ".bridle", _models, _tag),
        "checkpoint": Door("model", ".checkpoint", _checkpoints, _resume),
        "cross-fit": Door("model", ".scores", _cross_fits, _read_cross_fit),
        "det": Door("model", ".det", _deterministic, _decide),
        "crfsuite": Door("crfsuite", ".crfsuite", _crfsuite, _tag_crfsuite),
        "constrained": Door("model", ".bridle", _constrained, _tag_constrained),
        "rules": Door("rules", ".rules", lambda folder: _texts(folder, RULES), _rules),
        "npz": Door("npz", ".npz", _npz, _decode),
        "scores": Door("json", ".jsonl", _scores, _decode),
        "config": Door("json", ".json", _config, lambda path: read_record(Path(path))),
        "labels": Door("text", ".txt", lambda folder: _texts(folder, "O\nB-A\nI-A\n"), _labels),
    }


@cache
def seeds(name: str) -> tuple[bytes, ...]:
    """The seed files of a door."""
    with tempfile.TemporaryDirectory() as folder:
        return tuple(path.read_bytes() for path in doors()[name].make(Path(folder)))


# ---- labelled sequences ---------------------------------------------------------------------------------------------


def _labelled(name: str) -> Door:
    def make(folder: Path) -> Iterable[Path]:
        for k, some in enumerate(([0, 1, 2, 3], [2], [1]) if name != "brat" else ([0, 1, 2, 3],)):
            for gz in ("", ".gz") if kind == "text" and k == 1 else ("",):
                path = folder / f"{k}{suffix}{gz}"
                try:
                    write(path, [_example(name, j) for j in some], name)
                except bridle.BridleError:  # not every sequence can be written in every format
                    continue
                yield path

    kind = {"arrow": "table", "parquet": "table"}.get(name, "json" if name in JSON else "text")
    suffix = ".ann" if name == "brat" else f".{name}"
    return Door(kind, suffix, make, _read_brat if name == "brat" else lambda path: sum(1 for _ in read(path, name)))


def _read_brat(path: str) -> int:
    """Annotations of the text that the seed file was written for."""
    text = Path(path).with_suffix(".txt")
    text.write_text("".join(" ".join(columns["word"]) + "\n" for columns in COLUMNS), encoding="utf-8")
    result = sum(1 for _ in read(path, "brat", on_overlap="skip"))
    text.unlink()
    return result


def _example(name: str, k: int) -> Example:
    words, labels = COLUMNS[k]["word"], GOLD[k]
    if name == "segmented":
        return Example({"char": list("".join(words))}, ["S"] * len("".join(words)))
    if name == "text":
        return Example({"word": words})
    if name in ("brat", "doccano", "labelstudio", "spans"):
        return Example({"word": words}, [f"B-{label}" if label != "O" else label for label in labels], id=k)
    if name in ("jsonl", "arrow", "parquet"):
        return Example(COLUMNS[k], labels, {"verb": k, "spans": [[0, 1]]}, (), "", f"s{k}")
    return Example(COLUMNS[k] if name in ("conll", "csv", "tsv") else {"word": words}, labels)


# ---- models ---------------------------------------------------------------------------------------------------------


def _taggers() -> list[bridle.CRF | bridle.LocalTagger]:
    built = [
        bridle.CRF(features=["word[0]", "word[-1] pos[0]", "label[-1]"], iterations=3, threads=1),
        bridle.CRF(features=["word[0]", "label[-1]"], algorithm="perceptron", iterations=3, threads=1),
    ]
    return [*built, bridle.LocalTagger(features=["word[0]", "pos[1]"], iterations=2, threads=1)]


def _models(folder: Path) -> Iterable[Path]:
    for k, tagger in enumerate(_taggers()):
        path = folder / f"{k}.bridle"
        tagger.fit(COLUMNS, GOLD).save(path, notes={"reader": {"format": "conll"}})
        yield path
    plain = bridle.CRF(iterations=2, threads=1).fit([[["a"], ["b", "c"]], [{"d": 2.0}]], [["O", "A"], ["B"]])
    plain.save(folder / "plain.bridle")
    yield folder / "plain.bridle"


def _tag(path: str) -> None:
    model = bridle.load(path)
    x = COLUMNS[0] if getattr(model, "features", "auto") != "auto" else [["a"], ["b"]]
    model.predict([x])
    model.predict([x], ["at most 1 token of A"], on_infeasible="skip")


def _checkpoints(folder: Path) -> Iterable[Path]:
    for k, tagger in enumerate(_taggers()):
        path = folder / f"{k}.checkpoint"
        tagger.fit(COLUMNS, GOLD, dev=(COLUMNS[:2], GOLD[:2]), checkpoint=path, every=1)
        yield path


def _resume(path: str) -> None:
    """Resumed by all kinds of training, as it can be the checkpoint of any."""
    wrong: bridle.BridleError | None = None
    for tagger in _taggers():
        try:
            tagger.set_params(iterations=4).fit(COLUMNS, GOLD, dev=(COLUMNS[:2], GOLD[:2]), resume=path)
            return
        except bridle.BridleError as error:
            wrong = error
            if "another training" not in error.what:
                raise
    if wrong is not None:
        raise wrong


def _cross_fits(folder: Path) -> Iterable[Path]:
    for k, tagger in enumerate(_taggers()):
        path = folder / f"{k}.scores"
        tagger.cross_fit(COLUMNS, GOLD, folds=2).save(path)
        yield path


def _read_cross_fit(path: str) -> None:
    cross_fit = CrossFit.load(path)
    bridle.Decoder(cross_fit.labels).decode_batch(cross_fit.lattices(), threads=1)


def _deterministic(folder: Path) -> Iterable[Path]:
    for k, templates in enumerate(("words", "characters")):
        words = [x["word"] for x in COLUMNS]
        data = [{"word": x, "char": x} for x in words]  # whatever the templates ask for
        DeterministicRules(templates=templates).fit(data, GOLD).save(folder / f"{k}.det")
        yield folder / f"{k}.det"


def _decide(path: str) -> None:
    DeterministicRules.load(path).decide([{"word": x["word"], "char": x["word"]} for x in COLUMNS])


def _constrained(folder: Path) -> Iterable[Path]:
    path = folder / "c.bridle"
    ConstrainedTagger(rules=None, iterations=1).fit(COLUMNS, GOLD).save(path)
    yield path


def _tag_constrained(path: str) -> None:
    bridle.load(path).predict(COLUMNS[:1])


def _crfsuite(folder: Path) -> Iterable[Path]:
    few = crfsuite_file([b"O", b"A"], [b"a"], {(0, 1): 1.0}, {})
    for k, data in enumerate((SMALL, few)):
        path = folder / f"{k}.crfsuite"
        path.write_bytes(data)
        yield path


def _tag_crfsuite(path: str) -> None:
    tagger = crfsuite.Tagger(path)
    tagger.tag([["w=a", "w=b"], {"w": "a", "in": {"deep": ["x"]}}])
    tagger.marginal(tagger.labels()[0], 0)
    crfsuite.load(path).predict([[["a"], ["w=b"]]])
    tagger.info()


# ---- rules, scores, settings ----------------------------------------------------------------------------------------


def _texts(folder: Path, text: str) -> Iterable[Path]:
    path = folder / "all.txt"
    path.write_text(text, encoding="utf-8")
    yield path
    for k, line in enumerate(text.splitlines()):
        path = folder / f"{k}.txt"
        path.write_text(line + "\n", encoding="utf-8")
        yield path


def _rules(path: str) -> None:
    labels = bridle.Labels(["O", "A", "B", "B-A", "I-A"])
    lint(read_text(path).split("\n"), labels)
    rules = [line.rule for line in load_lines(path)]
    limits = {"time_limit": 1.0, "max_states": 100_000, "max_memory": 1 << 28}
    decoder = bridle.Decoder(labels, rules, on_infeasible="skip", **limits)
    lattice = bridle.Lattice(np.tile(np.arange(5.0), (4, 1)))
    given = {"tokens": ["He", "left", "12", "Elm"], "verb": 1, "phrases": [(0, 2)]}
    decoder.decode_batch([lattice], [given])


def _labels(path: str) -> None:
    from bridle.cli.reading import label_names

    bridle.Labels(label_names(None, Path(path)) or (), "BIO")


def _lattices() -> list[bridle.Lattice]:
    rng = np.random.default_rng(0)
    return [bridle.Lattice(rng.normal(size=(n, 3)), rng.normal(size=(3, 3)), np.zeros(3), np.ones(3)) for n in (4, 2)]


def _npz(folder: Path) -> Iterable[Path]:
    lattices = _lattices()
    shared = bridle.Batch(
        np.concatenate([x.unary for x in lattices]), [0, 4, 6], lattices[0].pairwise, np.zeros(3), np.ones(3)
    )
    save_scores(
        folder / "a.npz", shared, labels=LABELS, givens=[{"tokens": COLUMNS[0]["word"]}, {"tokens": ["a", "b"]}]
    )
    save_scores(folder / "b.npz", bridle.Batch(lattices[0].unary, [0, 4]))
    np.savez_compressed(folder / "c.npz", unary=lattices[0].unary, labels=np.array(LABELS))
    return [folder / f"{x}.npz" for x in "abc"]


def _scores(folder: Path) -> Iterable[Path]:
    given = [{"tokens": COLUMNS[0]["word"], "verb": 1}, {"tokens": ["a", "b"], "phrases": [[0, 2]]}]
    save_scores(folder / "a.jsonl", _lattices(), labels=LABELS, givens=given, ids=["r1", 7])
    save_scores(folder / "b.jsonl", [bridle.Lattice([[1, -np.inf, 2]])], labels=LABELS)
    save_scores(folder / "c.jsonl.gz", _lattices()[:1], labels=LABELS)
    return [folder / "a.jsonl", folder / "b.jsonl", folder / "c.jsonl.gz"]


def _decode(path: str) -> None:
    with open_scores(path) as file:
        labels = bridle.Labels(file.labels or LABELS)
        decoder = bridle.Decoder(
            labels, ["at most 1 token of A"], on_infeasible="skip", time_limit=2, max_states=100_000
        )
        for chunk in file.chunks:
            decoder.decode_batch(chunk.lattices, chunk.givens, 1)


def _config(folder: Path) -> Iterable[Path]:
    path = folder / "m.json"
    path.write_text(
        json.dumps({"command": "bridle train", "settings": {"data": ["a.txt"], "c2": 1.0, "seed": 0}}) + "\n"
    )
    yield path


def _trap(path: str) -> object:
    match Path(path).read_text(encoding="utf-8").strip():
        case "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "grow":
            return bytearray(2 << 30)
        case "raise":
            raise KeyError("untyped")
        case "refuse":
            raise bridle.BridleError("typed")
    return None
