"""scikit-learn: scorers for its searches and cross-validation that decode under rules.

`bridle.CRF` and `bridle.LocalTagger` are estimators: you do not need this module to search their
settings, to put them into pipelines or to cross-validate them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridle.decoding.decoder import Decoder
from bridle.errors import LabelError, ModelError, shown
from bridle.features import sequences_of
from bridle.frames import cells
from bridle.integrations.logits import labels_of
from bridle.labels import Labels
from bridle.report import segment_f1, sequence_accuracy, token_accuracy
from bridle.rules import Rule
from bridle.rules.loading import as_rules

__all__ = ["Scorer", "scorer"]

MEASURES: dict[str, Callable[..., float]] = {
    measure.__name__: measure for measure in (token_accuracy, segment_f1, sequence_accuracy)
}


@dataclass(frozen=True)
class Scorer:
    """A scorer that judges a model by its labels under rules, as `scorer` returns it.

    Attributes
    ----------
    measure : callable
        A function of gold and guessed labels; more is better.
    rules : tuple of Rule
        Rules that the labels obey.
    given : callable or None
        Makes the values that the rules refer to.
    options : dict
        Options of `Decoder`.
    """

    measure: Callable[[Any, Any], float]
    rules: tuple[Rule, ...]
    given: Callable[[Any], Mapping[str, Any]] | None
    options: Mapping[str, Any]

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Score a trained model, or a pipeline that ends with one, as scikit-learn calls it."""
        options = dict(self.options)
        if self.rules:
            options["rules"] = self.rules
        if self.given is not None:
            options["given"] = [self.given(x) for x in sequences_of(X)]
        return float(self.measure(cells(y), estimator.predict(X, **options)))


def scorer(
    measure: str | Callable[[Any, Any], float] = "token_accuracy",
    *,
    rules: Sequence[Rule | str] = (),
    labels: Labels | Iterable[str] | None = None,
    given: Callable[[Any], Mapping[str, Any]] | None = None,
    **options: Any,
) -> Scorer:
    """Create a scorer that judges models by their labels under rules.

    The settings that are best with rules on need not be those that are best without them: let a search judge models the
    way they will be used.

    Parameters
    ----------
    measure : {"token_accuracy", "segment_f1", "sequence_accuracy"} or callable
        One of the measures of `bridle.report`, or a function of gold and guessed labels.
    rules : list of Rule or str
        Rules, or sentences that are read as rules, for `predict`.
    labels : Labels or iterable of str, optional
        The labels that rules can name. Needed by rules, because scikit-learn turns an error of one fold into NaN: a
        misspelled label is an error here.
    given : callable, optional
        Makes the values that the rules refer to from one sequence of X. The texts of tokens are filled in.
    **options : object
        Options of `Decoder`, for example ``on_infeasible="relax"``.

    Returns
    -------
    Scorer
        What `scoring=` of scikit-learn takes.

    Raises
    ------
    ModelError
        If there is no such measure, or the rules are not a list.
    RuleError, LabelError
        If a rule cannot be read, names a label that is not among `labels`, or there are rules without `labels`.

    Examples
    --------
    >>> import bridle
    >>> from bridle.integrations.sklearn import scorer
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = [["a", "cat", "runs"], ["a", "dog", "runs"]] * 2, [["D", "N", "V"]] * 4
    >>> once = scorer("sequence_accuracy", rules=["exactly 1 token of V"], labels=["D", "N", "V"])
    >>> cross_val_score(bridle.LocalTagger(features=["word[0]"]), X, y, scoring=once, cv=2).tolist()
    [1.0, 1.0]
    """
    if not callable(measure) and measure not in MEASURES:
        wanted = f"{', '.join(map(repr, MEASURES))}, or a function of gold and guessed labels"
        raise ModelError("unknown measure", got=shown(measure), wanted=wanted)
    if not isinstance(rules, (list, tuple)):
        raise ModelError("rules are not a list of rules", got=shown(rules), wanted="[rule, ...]")
    parsed = as_rules(rules)
    if parsed and labels is None:
        wanted, cause = "labels=[...], those of the data", "Without them, a misspelled label would score NaN."
        raise LabelError("rules need the labels that they can name", got="no labels", wanted=wanted, cause=cause)
    if labels is not None:
        known = labels if isinstance(labels, Labels) else labels_of(sorted(set(labels)))
        Decoder(known, parsed)  # raises if a rule names another label
    return Scorer(MEASURES[measure] if isinstance(measure, str) else measure, parsed, given, options)
