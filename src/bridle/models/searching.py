"""Search for settings by successive halving (Jamieson & Talwalkar 2016): a grid at the cost of a few of its points.

    rung 1      all n candidates, on B / 3^(R-1) of the B sequences
    rung r      the best third of rung r - 1, on three times as many
    rung R      at most three candidates, on all sequences; the best of them is taken

A candidate is judged as `c1="auto"` judges strengths (tuning.py): by models that are trained on some folds and label
the others, or, with a development set, by a model that labels that. Only candidates of the same rung are compared.
The samples of the rungs are parts of each other, and the same for all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from time import perf_counter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bridle.deadline import Deadline, OutOfTime
from bridle.decoding.decoder import Decoder
from bridle.errors import ModelError, shown
from bridle.features import Features
from bridle.frames import LabelLists, Sequences, Table
from bridle.lattice import Batch
from bridle.models import fitting
from bridle.models.checks import Given, check_callable, check_seed, count_of, ids_of, jsonable, of_dev, one_of
from bridle.models.crossfit import FoldedTask
from bridle.models.folds import Folds, check_folds, deal, groups_of
from bridle.models.measures import Measure, check_measure, measure_of, with_unknown
from bridle.models.search_result import Candidate, Search
from bridle.models.seen import hashes_of
from bridle.models.tagger import Tagger
from bridle.models.task import Found, Task
from bridle.models.training import Plan

KEEP = 3  # of so many candidates one goes on, with so many times the sequences
FEWEST = 60  # sequences of the first rung
_FIXED = ("scheme",)  # other labels, whose figures cannot be compared
Ints = npt.NDArray[np.int64]


def search(
    model: Tagger,
    X: Sequences,
    y: LabelLists,
    grid: Mapping[str, Sequence[Any]],
    *,
    dev: tuple[Sequences, LabelLists] | None = None,
    groups: Sequence[Hashable] | Table | None = None,
    given: Sequence[Given] | Table | None = None,
    dev_given: Sequence[Given] | Table | None = None,
    on_unknown: Literal["raise", "wrong"] = "raise",
    folds: int = 4,
    measure: Measure = "auto",
    seconds: float | None = None,
    watch: Callable[[Candidate], None] | None = None,
) -> Search:
    """Search a grid of settings for the best, by successive halving.

    Parameters
    ----------
    model : Tagger
        All other settings. It need not be trained, and stays as it is. If it leaves `c1` and `c2` open and the grid
        does not name them, candidates are compared with the usual ones.
    X, y : list
        Sequences and their labels, as for `fit`.
    grid : mapping of str to list
        Values to try by the name of the setting, such as ``{"c1": [0, 0.1], "c2": [0.01, 0.1, 1]}``; every combination
        is a candidate.
    dev : (X, y), optional
        A development set to judge candidates by. Without one they are judged by cross-validation.
    groups : sequence, optional
        A name or a number per sequence; sequences of a group are held out together.
    given, dev_given : list of mapping, optional
        Values for rules that are used in training.
    on_unknown : {"raise", "wrong"}
        What to do with a label of the development set that does not occur in `y`, as for `fit`.
    folds : int, default 4
        Folds of the cross-validation.
    measure : {"auto", "f1", "accuracy", "exact", "quality"}, default "auto"
        What decides, as for `fit`; ``"auto"`` is ``"f1"`` if the labels make segments, otherwise ``"accuracy"``.
    seconds : float, optional
        The most time. Then the best of the last rung that is complete is taken.
    watch : callable, optional
        Called with each `Candidate` that was tried.

    Returns
    -------
    Search
        The best settings, and all that was compared.

    Raises
    ------
    ModelError
        If a setting is unknown or impossible, the grid is empty, or there are too few sequences to hold some out.
    LabelError
        If labels do not fit the sequences.

    Examples
    --------
    >>> import bridle
    >>> X = [[word] for word in "Ann Bob Eve Dan Kim Lou cat dog cow".split()]
    >>> y = [["NAME" if word.istitle() else "O"] for [word] in X]
    >>> model = bridle.CRF(c2=0.1)
    >>> found = bridle.models.search(model, X, y, {"features": [["word[0]"], ["shape[0]"]]})
    >>> found.settings
    {'features': ['shape[0]']}
    >>> model = model.set_params(**found.settings).fit(X, y)
    """
    check_measure(measure)
    check_seed(model.seed)
    one_of("on_unknown", on_unknown, ("raise", "wrong"))
    check_callable("watch", watch, "a function of a Candidate")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0):
        raise ModelError("bad setting seconds", got=repr(seconds), wanted="a number >= 0, or None")
    candidates = _candidates(model, grid)
    data, held = fitting.Data.of(X, y, given), fitting.dev_of(dev, dev_given)
    trials = _Trials(candidates[0][1], data, held, on_unknown, groups, check_folds(folds), seconds)
    name, rungs, why = measure_of(measure, trials.labels), plan_rungs(len(candidates), trials.count), "all rungs done"
    tried: list[Candidate] = []
    left, best = list(range(len(candidates))), None  # numbers of candidates; the best of the last rung that is done
    try:
        for rung, (going_on, sequences) in enumerate(rungs, 1):
            shares: dict[int, float] = {}
            for k in sorted(left, key=lambda k: (_encoding(candidates[k][1]), k)):
                settings, made = candidates[k]
                one = trials.judged(made, settings, rung, sequences)
                tried.append(one)
                shares[k] = getattr(one, name)
                if watch is not None:
                    watch(one)
            left = sorted(left, key=lambda k: (-shares[k], k))[:going_on]
            best = left[0]
    except OutOfTime:
        why = "the time was up"
    if best is None:  # not even the first rung is done: the best of what there is
        if not shares:
            got, wanted = f"{seconds:g} seconds", "more time, or fewer candidates"
            raise ModelError("the time was up before anything was compared", got=got, wanted=wanted)
        best = min(shares, key=lambda k: (-shares[k], k))
    done = 0 if dev is not None else trials.folds
    return Search(candidates[best][0], name, tuple(tried), tuple(n for _, n in rungs), done, why)


def plan_rungs(candidates: int, sequences: int) -> list[tuple[int, int]]:
    """For each rung: how many candidates go on from it (1 from the last), and on how many sequences they are tried.

    >>> plan_rungs(24, 9000), plan_rungs(24, 150), plan_rungs(24, 50)
    ([(8, 1000), (3, 3000), (1, 9000)], [(8, 60), (1, 150)], [(1, 50)])
    """
    counts = [candidates]
    while counts[-1] > KEEP:
        counts.append(-(-counts[-1] // KEEP))
    sizes = {max(sequences // KEEP**k, min(FEWEST, sequences)) for k in range(len(counts))}
    rungs = sorted(sizes)
    return list(zip([*counts[1 : len(rungs)], 1], rungs, strict=True))


def _candidates(model: Tagger, grid: Mapping[str, Sequence[Any]]) -> list[tuple[dict[str, Any], Tagger]]:
    """Every combination of the values, with a model that has it."""
    if not isinstance(grid, Mapping) or not grid:
        raise ModelError("there is nothing to search", got=shown(grid), wanted="{'c2': [0.1, 1], ...}")
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise ModelError(f"the values of {name!r} are not a list", got=shown(values), wanted="one value or more")
        if name in _FIXED:
            raise ModelError(f"{name!r} cannot be searched", got=shown(values), wanted="settings of the training")
    made = []
    for values in product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        one = type(model)(**model.get_params()).set_params(**settings)
        one._check()
        made.append((settings, one))
    return made


def _encoding(model: Tagger) -> str:
    """Equal for models that see sequences as the same numbers, with the same weights to learn."""
    settings = model.get_params()
    return repr([jsonable(settings.get(name)) for name in ("features", "cutoff", "pairs", "rules")])


class _Trials:
    """Tries settings on samples of the data."""

    def __init__(
        self,
        model: Tagger,
        data: fitting.Data,
        dev: fitting.Data | None,
        on_unknown: str,
        groups: Any,
        folds: int,
        seconds: float | None,
    ) -> None:
        self.count, self.folds, self._deadline = len(data.X), folds, Deadline.after(seconds)
        together = groups_of(groups, self.count)
        self._choice = model._chosen(data)
        hashes = hashes_of(model._setup(self._choice).features, data.X).tolist()
        self._keys: Sequence[Hashable] = hashes if together is None else together  # by which folds are dealt out
        self._seed = model.seed
        self._order = np.random.default_rng(model.seed).permutation(self.count)
        self.labels = data.labels(model.scheme)
        self._data, self._dev = data, dev
        if dev is not None:
            own: list[Given] = [*(data.given or [{}] * len(data.X)), *(dev.given or [{}] * len(dev.X))]
            self._data = fitting.Data([*data.X, *dev.X], [*data.y, *dev.y], own)
            with of_dev():
                ids_of(self.labels, dev.y, np.cumsum([0, *map(len, dev.y)]), on_unknown)
            self.labels = with_unknown(self.labels, dev.y)
        self._encoded: dict[str, tuple[Features, Decoder, fitting.Encoding]] = {}
        self._last: tuple[tuple[str, int], FoldedTask] | None = None  # the next one is mostly of the same

    def judged(self, model: Tagger, settings: Mapping[str, Any], rung: int, sequences: int) -> Candidate:
        """How good a model with these settings is."""
        begun, iterations = perf_counter(), 0
        setup = model._setup(self._choice if model.features == "auto" else None)
        decoder, examples, folded = self._folded(model, setup, sequences)
        stop = self._deadline.check
        plan = Plan(count_of("iterations", model._iterations()), model._tolerance(), watch=lambda step: stop())
        learn_fold = fitting.learner_of_folds(setup, decoder, examples.given, plan, None)
        held = iter([folded.sequences[outside].tolist() for _, outside in folded.folds])

        def learn(fold: int, task: Task, inside: Ints) -> Found:
            nonlocal iterations
            found, n = learn_fold(task, inside)
            iterations += n
            return found

        def decode(batch: Batch) -> npt.NDArray[np.integer]:
            its = next(held)
            given = None if examples.given is None else [examples.given[b] for b in its]
            return decoder.decode_batch(batch, given, threads=model.threads).ids

        stop()
        try:
            shares = folded.compare(folded.scores(learn, setup.kind), decode).to_dict()
        except ModelError as error:
            raise error.at(where=", ".join(f"{name}={value!r}" for name, value in settings.items())) from None
        plain = {name: jsonable(value) for name, value in settings.items()}
        seconds = round(perf_counter() - begun, 3)
        return Candidate(rung, plain, sequences, **shares, iterations=iterations, seconds=seconds)

    def _folded(
        self, model: Tagger, setup: fitting.Setup, sequences: int
    ) -> tuple[Decoder, fitting.Encoding, FoldedTask]:
        """A sample of the data in folds; with a development set, one fold that is held out: that."""
        key = _encoding(model)
        if key not in self._encoded:
            self._encoded[key] = setup.features, *fitting.encode(setup, self._data, self.labels)
        features, decoder, examples = self._encoded[key]
        if self._last is None or self._last[0] != (key, sequences):
            self._last = None  # two of them may be more than there is room for
            chosen = np.sort(self._order[:sequences])
            if self._dev is None:
                folds = deal([self._keys[b] for b in chosen.tolist()], self.folds, self._seed)
                fitting.check_held_out(len(folds), sequences)
            else:
                beside = np.arange(self.count, self.count + len(self._dev.X))
                folds = Folds(np.repeat([-1, 0], [len(chosen), len(beside)]))
                chosen = np.concatenate([chosen, beside])
            same = replace(setup, features=features)
            self._last = (key, sequences), fitting.fold(same, examples, self.labels, chosen, None, folds)
        return decoder, examples, self._last[1]
