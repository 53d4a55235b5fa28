"""One run of `bridle train`: make a model, compare settings, fit, show progress, summarise the result."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from bridle.cli.base import show, warn
from bridle.cli.options import Measure
from bridle.cli.progress import ProgressBar
from bridle.cli.reading import labels_in, model_inputs
from bridle.data import Example, Lines
from bridle.errors import BridleError, FeatureError, FileError, LabelError, ModelError
from bridle.extras import needed
from bridle.features import SETS, Templates, choose_features
from bridle.features.templates import no_such_set
from bridle.learn import ConstrainedTagger, DeterministicRules
from bridle.learn.judged import cross_fitted
from bridle.models import (
    CRF,
    Candidate,
    CrossFit,
    CrossValidation,
    Fold,
    LocalTagger,
    Search,
    Step,
    Tagger,
    Trial,
    cross_validate,
    search,
)
from bridle.models.record import describe_scores
from bridle.models.training import TITLES, measure_of
from bridle.report import score
from bridle.rules.base import Rule
from bridle.rules.loading import read_text

_OF_CRF = {"c1", "c2", "c2_transitions", "folds", "tuning_seconds"}
ITERATIONS = {True: 100, False: 20}  # of a CRF, of others


class Learner(StrEnum):
    """Values of --learner."""

    CRF, PERCEPTRON, IBT, LOCAL, WINNOW = "crf", "perceptron", "ibt", "local-perceptron", "local-winnow"
    CONSTRAINED = "constrained"


def make_model(learner: Learner, common: dict[str, Any], specific: dict[str, Any], rules: list[Rule]) -> Tagger:
    """Return the model for the options. Options that have no effect on it are errors."""
    local = learner in (Learner.LOCAL, Learner.WINNOW)
    takes = {Learner.CRF: _OF_CRF, Learner.CONSTRAINED: {"folds"}}.get(
        learner, {"margin", "average"} if local else {"average"}
    )
    if other := sorted(set(specific) - takes):
        fitting = {"margin": "local-perceptron", "average": "perceptron"}.get(other[0], "crf")
        name = f"--{other[0]}" if other[0] in ("c1", "c2") else other[0]  # the others are in a settings file
        raise ModelError(f"`{name}` has no effect with `--learner {learner}`; remove it or use `--learner {fitting}`")
    algorithm: Any = "lbfgs" if learner is Learner.CRF else learner.value.removeprefix("local-")
    if learner is Learner.CONSTRAINED:
        for name in ("class_weight", "pairs"):
            if common.pop(name, None) is not None:
                raise ModelError(f"`{name}` has no effect with `--learner constrained`; remove it")
        return ConstrainedTagger(DeterministicRules(), train="all", search="viterbi", **specific, **common)
    if local:
        return LocalTagger(algorithm, **specific, **common)
    return CRF(algorithm, rules=tuple(rules), **specific, **common)


def parse_strength(name: str, text: str | None) -> float | str | None:
    """Parse a strength of regularisation: a number, or auto."""
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ModelError(f"bad setting {name}", got=repr(text), wanted="a number >= 0, or auto") from None


def features_for(features: str, examples: Sequence[Example]) -> str | list[str]:
    """Return the features that a model takes: "auto", or the templates of a set or of a file."""
    return features if features == "auto" else str(load_templates(features, list(examples[0].columns))).splitlines()


def print_feature_choice(features: str, examples: Sequence[Example]) -> None:
    """Print which features the model will choose, and why."""
    if features == "auto":
        chosen = choose_features(
            [example.columns for example in examples], [example.labels or () for example in examples]
        )
        warn(f"features: {chosen}")


def load_templates(features: str, columns: list[str]) -> Templates:
    """Return the templates of a set, of a file, or of the text itself; they must match the columns of the data."""
    if features in SETS or "[" in features:
        where, text = None, SETS.get(features, features)
    elif not os.path.exists(features) and features.isidentifier():  # noqa: PTH110  (it may be too long for a path)
        raise no_such_set(features)
    else:
        where, text = features, read_text(Path(features))
    try:
        templates = Templates.parse(text)
    except FeatureError as error:
        raise error.at(where=where) from None
    if (place := templates.first_unknown(columns)) is None:
        return templates
    try:
        templates.check_columns(columns)
    except FeatureError as error:
        if features in SETS or error.cause is None:
            error.cause = "Name the columns of the file: --columns word,pos,label."
        raise error.at(where=None if where is None else f"{where}:{_line_with(str(place), text)}") from None
    return templates


def _line_with(place: str, text: str) -> int:
    """Return the number of the first line of templates that contains a place."""
    lines = (line.replace("[+", "[").split() for line in text.splitlines())
    return next(number for number, words in enumerate(lines, start=1) if place in words)


def fit(
    model: Tagger,
    examples: list[Example],
    dev: list[Example] | None,
    *,
    on_unknown: Any,
    measure: Any,
    checkpoint: Path | None,
    every: int,
    resume: Path | None,
    progress: bool | None,
    log: str | None,
    groups: list[str] | None = None,
    unlabelled: list[Example] | None = None,
    rules: list[Rule] | None = None,
) -> tuple[float, BaseException | None]:
    """Train. Returns the seconds it took, and what interrupted it, if there is a model anyway.

    rules: those of the unlabelled text.
    """
    X, y, given = model_inputs(examples)
    start = time.perf_counter()
    with _watching(progress, log) as watch, warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: warn(str(message))  # the time limit ended the choice of c1 and c2
        try:
            model.fit(
                X,
                y,
                given=given,
                **dev_inputs(dev),
                on_unknown=on_unknown,
                measure=measure,
                groups=groups,
                **_text_inputs(unlabelled, rules),
                watch=watch,
                watch_tuning=trial_printer(progress),
                checkpoint=checkpoint,
                every=every,
                resume=resume,
            )
        except (KeyboardInterrupt, BridleError) as error:
            if not hasattr(model, "linear_"):
                raise add_place(error, examples, dev) from None
            return time.perf_counter() - start, error
    return time.perf_counter() - start, None


def dev_inputs(dev: list[Example] | None) -> dict[str, Any]:
    """Return the development set as arguments of training."""
    if dev is None:
        return {}
    X, y, given = model_inputs(dev)
    return {"dev": (X, y), "dev_given": given}


def _text_inputs(unlabelled: list[Example] | None, rules: list[Rule] | None) -> dict[str, Any]:
    """Return unlabelled text and its rules as arguments of training."""
    if unlabelled is None:
        return {}
    X, _, given = model_inputs(unlabelled)
    return {"unlabelled": X, "rules": rules or (), "unlabelled_given": given if any(given) else None}


def check_text(
    unlabelled: list[str] | None, rules: list[Path] | None, learner: Learner, cv: int | None, others: Mapping[str, Any]
) -> None:
    """Refuse rules that nothing uses, and options that train without unlabelled text. others: more of these."""
    if rules and unlabelled is None and learner is not Learner.IBT and cv is None:
        raise ModelError(
            "--rules needs --unlabelled, --learner ibt or --cv",
            got=f"--learner {learner}",
            wanted="--unlabelled FILE, --learner ibt, or --cv N",
            cause="To obey rules when tagging, pass them to bridle tag.",
        )
    used = {f"--learner {learner}": learner is not Learner.CRF, "--cv": cv, **others}
    wrong = [flag for flag, value in used.items() if value]
    if unlabelled is not None and wrong:
        raise ModelError(
            f"--unlabelled and {wrong[0]} cannot be combined",
            got="both",
            wanted="one of them",
            cause="Unlabelled text is for --learner crf; comparisons on held-out data train without it.",
        )


def warn_missing_labels(examples: list[Example]) -> None:
    """Print how many labels are missing, and how many sequences have none."""
    missing = [sum(label is None for label in example.labels or ()) for example in examples]
    if not any(missing):
        return
    empty = sum(count == len(example) for count, example in zip(missing, examples, strict=True) if count)
    said = f"{sum(missing):,} of {sum(map(len, examples)):,} tokens have no label (? or null); training uses the others"
    warn(said + (f"; {empty:,} sequences have no label at all and have no effect" if empty else ""))


def trial_printer(progress: bool | None) -> Callable[[Trial], None]:
    """Return a function that prints the scores of c1 and c2, if progress is shown."""
    say = ProgressBar(progress, "searching").say

    def watch(trial: Trial) -> None:
        shares = f"{trial.exact:.1%} of held-out sequences all right, F1 {trial.f1:.2%}"
        say(f"c1 {trial.c1:g}, c2 {trial.c2:g}: {shares}  {trial.seconds:.1f} s")

    return watch


def save_cross_fit(
    model: Tagger, examples: list[Example], groups: list[str] | None, path: Path, say: Callable[[str], None]
) -> CrossFit:
    """Compute the scores of held-out sequences, and save them in a file."""
    X, y, given = model_inputs(examples)
    cross_fit = cross_fitted(model, X, y, given, groups, say)
    cross_fit.save(path)
    return cross_fit


def add_place(error: BaseException, examples: list[Example], dev: list[Example] | None) -> BaseException:
    """Add the place of the sequence to an error."""
    if isinstance(error, BridleError) and error.sequence is not None:
        # Errors of training do not name a place, except those about the development set.
        its = examples if error.where is None or dev is None else dev
        error.where = its[error.sequence].where
    return error


def score_dev(
    model: Tagger, dev: list[Example], rules: list[Rule], threads: int, counts: Mapping[str, int]
) -> dict[str, Any]:
    """Scores of the best model on the development set. counts: of the labels of the training data."""
    X, y, given = model_inputs(dev)
    guessed = model.predict(X, rules, given=given, threads=threads, on_infeasible="relax")
    try:
        scores = score(y, guessed, model.labels_.scheme)
    except LabelError:  # a label that training does not know, and that does not fit the scheme
        scores = score(y, guessed)
    return describe_scores(scores, model.progress_, max(counts, key=counts.__getitem__))


def summary(model: Tagger) -> str:
    """Return a summary of training, in one line."""
    progress = model.progress_
    parts = [
        f"{len(model.labels_)} labels, {model.n_weights_:,} weights",
        f"{progress.iteration} iterations ({progress.why})",
        f"loss {progress.losses[-1]:.6g}",
    ]
    if (tuning := model.tuning_) is not None:
        tried = len({(trial.c1, trial.c2) for trial in tuning.trials})
        why = f"the best of {tried} on held-out sequences" if tried else f"not compared: {tuning.why}"
        parts.append(f"c1 {tuning.c1:g} and c2 {tuning.c2:g}, {why}")
    return "; ".join(parts)


def dev_summary(scores: Mapping[str, Any]) -> str:
    """Scores of the best model on the development set, next to the baseline."""
    decided = scores["measure"]
    always = f"always {scores['always']['label']}: {scores['always']['accuracy']:.2%}"
    texts = {
        "f1": f"F1 {scores['segments']['f1']:.2%}",
        "accuracy": f"{scores['accuracy']:.2%} of the tokens right ({always})",
        "exact": f"{scores['exact']:.2%} of the sequences all right",
    }
    first = f"best {TITLES[decided]} {scores['best']:.2%} on the development set after {scores['iteration']} iterations"
    return "; ".join([first, *(text for name, text in texts.items() if name not in (decided, "exact"))])


@contextmanager
def _watching(progress: bool | None, log: str | None) -> Iterator[Any]:
    """Yield the function to call after each iteration: it shows progress and writes a log."""
    lines = None if log is None else Lines(log)

    def watch(step: Step) -> None:
        title = TITLES.get(step.measure or "", "")
        score = "" if step.score is None else f"  dev {title} {step.score:.2%}{' *' if step.best else ''}"
        show_progress(step.iteration, step.iterations, f"loss {step.loss:.6g}{score}  {step.seconds:.2f} s")
        if lines is not None:
            lines.write([json.dumps({name: getattr(step, name) for name in step.__slots__})])

    with ProgressBar(progress, "training") as show_progress, lines or nullcontext():
        yield watch


# What --search NAME tries if no values are given.
RANGES: dict[str, list[Any]] = {
    "c1": [0.0, 0.03, 0.1, 0.3],
    "c2": [0.01, 0.03, 0.1, 0.3, 1.0, 3.0],
    "cutoff": [1, 2, 3],
}
_SEARCHED = (*RANGES, "features")


def parse_grid(options: list[str], columns: list[str]) -> dict[str, list[Any]]:
    """Parse --search: NAME,NAME tries the usual values of settings, NAME=VALUE,VALUE the given ones."""
    grid: dict[str, list[Any]] = {}
    for option in options:
        name, given, values = (part.strip() for part in option.partition("="))
        listed = [value.strip() for value in values.split(",")]
        for each in [name] if given else [part.strip() for part in option.split(",")]:
            if each not in _SEARCHED or each in grid:
                wanted = f"{', '.join(_SEARCHED)}, each once; or NAME=VALUE,VALUE"
                raise ModelError("--search must name settings", got=repr(option), wanted=wanted)
            if given:
                grid[each] = [_value(each, value, columns) for value in listed]
            else:
                grid[each] = _usual(each, columns)
    return grid


def _value(name: str, text: str, columns: list[str]) -> Any:
    if name == "features":
        templates = load_templates(text, columns)
        return text if text in SETS else str(templates).splitlines()
    if name != "cutoff":
        return parse_strength(name, text)
    if not text.isdecimal():
        raise ModelError("bad setting cutoff", got=repr(text), wanted="an integer >= 1")
    return int(text)


def _usual(name: str, columns: list[str]) -> list[Any]:
    """Return the usual values of a setting; for features, the sets that need only columns of the data."""
    if name != "features":
        return RANGES[name]
    values = []
    for feature_set in SETS:
        try:
            values.append(_value(name, feature_set, columns))
        except FeatureError:  # it needs a column that the data does not have
            continue
    return values


def check_grid(grid: Mapping[str, Any], learner: Learner, given: Mapping[str, Any]) -> None:
    """Refuse settings that the learner does not have, or that options set. given: those options."""
    for name in grid:
        if name in ("c1", "c2") and learner is not Learner.CRF:
            raise ModelError(f"`--search {name}` has no effect with `--learner {learner}`; use `--learner crf`")
        if given.get(name) is not None:
            raise ModelError(f"--{name} and --search {name} cannot be combined", got="both", wanted="one of them")


def check_comparison(*, cv: int | None, search: list[str] | None, dev: str | None, plot: Path | None) -> None:
    """Refuse options that cannot be combined."""
    if cv is not None and dev is not None:
        cause = "Cross-validation holds out parts of DATA and does not use a development set."
        raise FileError("--cv and --dev cannot be combined", got="both", wanted="one of them", cause=cause)
    if plot is not None and not search:
        raise FileError("--plot needs --search", got="--plot alone", wanted="--search NAMES as well")
    if plot is not None:
        needed("matplotlib", "plot", f"cannot draw {plot} without Matplotlib")  # check before the search


@dataclass(frozen=True)
class Comparison:
    """Settings compared on held-out data, as the options ask."""

    cv: int | None
    grid: Mapping[str, list[Any]]  # empty: no search
    measure: Measure
    folds: int  # of the search
    seconds: float | None  # of the search
    on_unknown: str
    plot: Path | None
    progress: bool | None
    quiet: bool  # only JSON goes to standard output

    def run(
        self,
        model: Tagger,
        examples: list[Example],
        dev: list[Example] | None,
        rules: list[Rule],
        groups: list[str] | None,
    ) -> dict[str, Any]:
        """Give the model the best settings and measure them. Returns the results, for JSON."""
        results: dict[str, Any] = {}
        if self.grid:
            searched = self._search(model, examples, dev, groups)
            self._show(searched.lines())
            if self.plot is not None:
                searched.plot(self.plot)
            model.set_params(**searched.settings)
            results["search"] = searched.to_dict()
        if self.cv is not None:
            validated = self._validate(model, examples, rules, groups)
            self._show(validated.lines())
            results["cross_validation"] = validated.to_dict()
        return results

    def _show(self, lines: list[str]) -> None:
        if not self.quiet:
            show(lines)

    def _search(
        self, model: Tagger, examples: list[Example], dev: list[Example] | None, groups: list[str] | None
    ) -> Search:
        X, y, given = model_inputs(examples)
        tried: list[Candidate] = []
        say = ProgressBar(self.progress, "comparing").say

        def watch(candidate: Candidate) -> None:
            tried.append(candidate)
            shares = f"F1 {candidate.f1:.2%}, {candidate.accuracy:.2%} of the tokens right"
            sequences = f"rung {candidate.rung}, {candidate.sequences:,} sequences"
            say(f"{sequences}, {candidate}: {shares}  {candidate.seconds:.1f} s")

        try:
            return search(
                model,
                X,
                y,
                self.grid,
                given=given,
                **dev_inputs(dev),
                groups=groups,
                on_unknown="wrong" if self.on_unknown == "wrong" else "raise",
                folds=self.folds,
                measure=self.measure.value,
                seconds=self.seconds,
                watch=watch,
            )
        except KeyboardInterrupt:
            if tried:
                last = [candidate for candidate in tried if candidate.rung == tried[-1].rung]
                name = measure_of(self.measure.value, labels_in(y, "auto"))
                best = max(last, key=lambda candidate: float(getattr(candidate, name)))
                compared = f"{len(last)} candidates of rung {best.rung} were compared"
                warn(f"{compared}; the best by {TITLES[name]}: {best}; no model was written")
            raise
        except BridleError as error:
            raise add_place(error, examples, dev) from None

    def _validate(
        self, model: Tagger, examples: list[Example], rules: list[Rule], groups: list[str] | None
    ) -> CrossValidation:
        X, y, given = model_inputs(examples)
        say = ProgressBar(self.progress, "comparing").say

        def watch(fold: Fold, number: int, count: int) -> None:
            shares = f"F1 {fold.plain.segments.f1:.2%}, {fold.plain.accuracy:.2%} of the tokens right"
            if fold.ruled is not None:
                shares += f"; with rules F1 {fold.ruled.segments.f1:.2%}, {fold.ruled.accuracy:.2%}"
            say(f"fold {number}/{count}: {shares}  {fold.seconds:.1f} s")

        return cross_validate(
            model,
            X,
            y,
            folds=self.cv or 0,
            groups=groups,
            given=given,
            rules=rules,
            measure=self.measure.value,
            watch=watch,
        )
