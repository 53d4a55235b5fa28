"""A wheel at work: decode under a rule, train, tag. Needs nothing but bridle and what it depends on."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import bridle
from bridle import rules as r
from bridle.data import references

labels = bridle.Labels(["O", "A"])
lattice = bridle.Lattice([[0.0, 1.0], [0.0, 2.0], [0.0, 1.5]])
decoding = bridle.Decoder(labels, [r.at_most(1, of="A", count="tokens")]).decode(lattice)
assert decoding.labels == ["O", "A", "O"] and decoding.optimal, decoding

train = references.references("acm", "lncs", count=20)
model = bridle.CRF(features="fields", iterations=20).fit([e.columns for e in train], [e.labels for e in train])
sentence = [{"word": ["Knuth", ",", "Donald", "E.", "The", "TeXbook", ".", "Addison-Wesley", ",", "1984", "."]}]
rules = [r.present("TITLE"), r.no_duplicates(of=["AUTHOR", "TITLE"])]
[predicted] = model.predict(sentence, rules)
with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "model")
    again = bridle.load(Path(folder) / "model").predict(sentence, rules)
assert again == [predicted] and "TITLE" in predicted, (predicted, again)

compiler = shutil.which("c++") or shutil.which("g++") or "none"
gil = "" if getattr(sys, "_is_gil_enabled", lambda: True)() else ", without the GIL"
print(f"bridle {bridle.__version__} on Python {sys.version.split()[0]}{gil}, {bridle.simd()}; compiler: {compiler}")
