"""CRFsuite models beside python-crfsuite: every model that the packages named in tools/crfsuite_models.py bring along.

BRIDLE_CRFSUITE_MODELS is the folder that `python tools/crfsuite_models.py DIR` fills.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import random
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import probablepeople
import pycrfsuite
import pytest
import sklearn_crfsuite
import usaddress

import bridle
from bridle.integrations.crfsuite import Tagger, from_sklearn, load

TOOL = Path(__file__).parents[3] / "tools" / "crfsuite_models.py"
INSTALLED = [
    Path(usaddress.__file__).with_name("usaddr.crfsuite"),
    *(
        Path(probablepeople.__file__).with_name(f"{name}_learned_settings.crfsuite")
        for name in ("generic", "person", "company")
    ),
]
ADDRESSES = [
    "123 Main St. Suite 100 Chicago, IL 60601",
    "Robie House, 5757 South Woodlawn Avenue, Chicago, IL 60637",
    "State & Lake, Chicago",
    "PO Box 12, Boise ID",
    "1 Infinite Loop\nCupertino, CA 95014",
]


def tool() -> Any:
    spec = importlib.util.spec_from_file_location("crfsuite_models", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FETCHED = {f"{package}-{version}": count for package, (version, count) in tool().PACKAGES.items()}


def models_of(package: str) -> list[Path]:
    folder = os.environ.get("BRIDLE_CRFSUITE_MODELS")
    output = "run `python tools/crfsuite_models.py DIR`, and set BRIDLE_CRFSUITE_MODELS to DIR"
    assert folder, f"the CRFsuite models are missing: {output}"
    result = sorted((Path(folder) / package).glob("*"))
    assert len(result) == FETCHED[package], f"{package}: {len(result)} models in {folder}: {output}"
    return result


def sequences(path: Path, count: int) -> Iterator[list[Any]]:
    """Sequences of the model's own attributes and others, as lists and as dicts with values; some are long."""
    known = load(path).features_.names()
    rng = random.Random(path.name)
    for k in range(count):
        n = rng.choice([1, 2, 5, 9, 40]) if k else 300
        x: list[Any] = []
        for _ in range(n):
            names = [name for name in rng.choices(known, k=rng.randrange(0, 12)) if not _half(name)]
            names += rng.choices(["unknown", "", "w:" + str(k)], k=rng.randrange(2))
            match rng.randrange(3):
                case 0:
                    x.append(names + names[:2])  # some of them twice
                case 1:
                    x.append({name: rng.choice([True, False, 1, 0.5, -2.25, 0.1]) for name in names})
                case _:
                    parts = [name.partition(":") for name in names]
                    x.append(
                        {
                            key: (value if rng.random() < 0.5 else [value, value]) if colon else True
                            for key, colon, value in parts
                        }
                    )
        yield x


def _half(name: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in name)


def compare(path: Path, xs: list[Any]) -> None:
    """Labels, probabilities and marginals are those of python-crfsuite."""
    peer, ours = pycrfsuite.Tagger(), Tagger(path)
    peer.open(str(path))
    assert ours.labels() == peer.labels()
    rng = random.Random(0)
    for x in xs:
        y = peer.tag(x)
        assert ours.tag(x) == y
        some = [rng.choice(ours.labels()) if rng.random() < 0.1 else label for label in y]
        for labels in (y, some):
            assert ours.probability(labels) == pytest.approx(peer.probability(labels), rel=1e-9, abs=1e-15)
        for _ in range(3 if x else 0):
            label, t = rng.choice(ours.labels()), rng.randrange(len(x))
            assert ours.marginal(label, t) == pytest.approx(peer.marginal(label, t), rel=1e-9, abs=1e-9)
    model = load(path)
    for x, thread in zip(xs, model.decode(xs, model.decoder(), threads=1), strict=True):
        assert thread.score == pytest.approx(
            model.lattice(x).score(model.labels_.ids(ours.tag(x))), rel=1e-9
        )  # perhaps another of the best


@pytest.mark.parametrize("path", INSTALLED, ids=lambda path: path.stem)
def test_installed_models(path: Path) -> None:
    compare(path, list(sequences(path, 40)))


@pytest.mark.parametrize("package", FETCHED)
def test_fetched_models(package: str) -> None:
    for path in models_of(package):
        compare(path, list(sequences(path, 20)))


def test_features_as_the_packages_make_them() -> None:
    compare(INSTALLED[0], [usaddress.tokens2features(usaddress.tokenize(text)) for text in ADDRESSES])
    names = ["Mr George 'Gob' Bluth II", "Sitwell Housing Inc", "Prof. Ada Lovelace & Co."]
    for path in INSTALLED[1:]:
        compare(path, [probablepeople.tokens2features(probablepeople.tokenize(name)) for name in names])


def test_item_sequences() -> None:
    x = usaddress.tokens2features(usaddress.tokenize(ADDRESSES[0]))
    for rules in ([], ["forbid ZipCode"]):
        tagger = Tagger(INSTALLED[0], rules=rules)
        wanted = tagger.tag(x)
        assert tagger.tag(pycrfsuite.ItemSequence(x)) == wanted
        tagger.set(pycrfsuite.ItemSequence(x))
        assert tagger.tag() == wanted


def test_kinds_of_features(trained: sklearn_crfsuite.CRF) -> None:
    values = [
        np.True_,
        np.int64(2),
        np.float32(0.5),
        np.float64(0.5),
        Decimal("2.5"),
        Fraction(1, 4),
        {"a", "b"},
        ["a"],
    ]
    tokens = [{"a"}, frozenset(["w:a", "first"]), ("w:b", "n"), *({"w": "a", "n": value} for value in values)]
    xs = [tokens, *([token] for token in tokens), [{"w": {"a", "c"}, "n": {"b": np.int8(1)}}]]
    compare(Path(trained.modelfile.name), xs)


def test_columns_of_pandas(trained: sklearn_crfsuite.CRF) -> None:
    x = [{"w": "a", "first": True}, {"w": "b"}, ["w:a"]]
    tagger = Tagger(trained.modelfile.name)
    assert tagger.tag(pd.Series(x)) == tagger.tag(x) == list(trained.predict_single(x))


def test_usaddress_migrates_by_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "123 Main St. Suite 100 Chicago, IL 60601"
    plain = usaddress.tag(text)
    rules = ["no duplicates of AddressNumber, StreetName, PlaceName, StateName, ZipCode"]
    monkeypatch.setattr(usaddress, "TAGGER", Tagger(INSTALLED[0], rules=rules))
    assert usaddress.tag(text) == plain
    monkeypatch.setattr(usaddress, "TAGGER", Tagger(INSTALLED[0], rules=["forbid ZipCode"]))
    assert "ZipCode" not in dict(usaddress.parse(text)).values()


def test_info_of_a_model_that_python_crfsuite_cannot_tell() -> None:
    """usaddress has attributes with line breaks."""
    peer = pycrfsuite.Tagger()
    peer.open(str(INSTALLED[0]))
    with pytest.raises((AttributeError, AssertionError)):
        peer.info()
    result = Tagger(INSTALLED[0]).info()
    assert any("\n" in name for name in result.attributes) and len(result.attributes) == 1270


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> sklearn_crfsuite.CRF:
    rng = random.Random(0)
    X = [[{"w": rng.choice("abc"), "first": t == 0, "n": rng.random()} for t in range(6)] for _ in range(40)]
    y = [["B-X" if token["w"] == "a" else "O" for token in x] for x in X]
    path = tmp_path_factory.mktemp("crf") / "model.crfsuite"
    return sklearn_crfsuite.CRF(max_iterations=20, model_filename=str(path)).fit(X, y)


def test_info_is_that_of_python_crfsuite(trained: sklearn_crfsuite.CRF) -> None:
    ours, theirs = Tagger(trained.modelfile.name).info(), trained.tagger_.info()
    assert ours.labels == theirs.labels and ours.attributes == theirs.attributes
    assert ours.transitions == pytest.approx(theirs.transitions, abs=1e-6)  # theirs has six digits
    assert {k: v for k, v in ours.state_features.items() if abs(v) > 1e-6} == pytest.approx(
        {k: v for k, v in theirs.state_features.items() if abs(v) > 1e-6}, abs=1e-6
    )
    assert ours.header == theirs.header


def test_estimators_of_sklearn_crfsuite(trained: sklearn_crfsuite.CRF, tmp_path: Path) -> None:
    x = [{"w": "a", "first": True, "n": 0.3}, {"w": "b", "n": 0.7}, {"w": "a"}]
    model = from_sklearn(trained)
    assert model.labels_.scheme == "BIO"
    assert model.predict([x]) == [list(trained.predict_single(x))]
    model.save(tmp_path / "model.bridle")
    again = Tagger(bridle.load(tmp_path / "model.bridle"))
    again.set(x)
    for t, marginals in enumerate(trained.predict_marginals_single(x)):
        for label, p in marginals.items():
            assert again.marginal(label, t) == pytest.approx(p, rel=1e-9)
    unpickled = from_sklearn(pickle.loads(pickle.dumps(trained)))
    assert unpickled.fingerprint_ == model.fingerprint_
    with pytest.raises(bridle.ModelError, match="not a trained estimator"):
        from_sklearn(sklearn_crfsuite.CRF())


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd", "ap", "pa", "arow"])
def test_every_algorithm_of_crfsuite(algorithm: str, tmp_path: Path) -> None:
    """Among equal scores, which those of the perceptrons often are, the same labelling is chosen."""
    rng = random.Random(1)
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    xs = [[[f"w={rng.randrange(5)}", f"v={rng.randrange(3)}"] for _ in range(6)] for _ in range(200)]
    for x in xs[:10]:
        trainer.append(x, [rng.choice("ABCD") for _ in x])
    trainer.set_params({"max_iterations": 2})
    trainer.train(str(tmp_path / "model.crfsuite"))
    peer, ours = pycrfsuite.Tagger(), Tagger(tmp_path / "model.crfsuite")
    peer.open(str(tmp_path / "model.crfsuite"))
    assert [ours.tag(x) for x in xs] == [peer.tag(x) for x in xs]


def test_attributes_that_are_bytes(tmp_path: Path) -> None:
    """CRFsuite knows bytes only; python-crfsuite takes them, and encodes strings as UTF-8."""
    path, names = (
        tmp_path / "model.crfsuite",
        [b"\xff\xfe", "Straße".encode(), "Straße", "line\nbreak", b"\xed\xb2\x80", b""],
    )
    trainer = pycrfsuite.Trainer(verbose=False)
    for k, name in enumerate(names * 3):
        trainer.append([[name], {name: 0.3}, {b"key": name}], ["A", "BC"[k % 2], "D"])
    trainer.train(str(path))
    compare(path, [[[name, *names[:k]], {name: b"x"}, {name: True, b"key": name}] for k, name in enumerate(names)])
