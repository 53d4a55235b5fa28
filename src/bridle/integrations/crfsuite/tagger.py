"""A tagger with the interface of python-crfsuite that takes rules."""

from __future__ import annotations

import contextlib
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bridle.decoding.decoder import Decoder, OnInfeasible, without_answer
from bridle.decoding.marginals import log_probability
from bridle.decoding.problem import Problem, not_a_dict
from bridle.errors import FeatureError, LabelError, ModelError, ModelFileError, shown
from bridle.features.plain import PlainFeatures, pairs_of
from bridle.integrations.crfsuite.model import (
    Info,
    build_kernel,
    build_model,
    collect_info,
    load,
    parse_contents,
)
from bridle.lattice import Lattice, Scores
from bridle.models.crf import CRF
from bridle.rules.base import Rule
from bridle.rules.loading import as_rules

Given = Mapping[str, Any]


class Tagger:
    """A tagger with the interface of `pycrfsuite.Tagger` that obeys rules.

    Without rules it gives the labels and probabilities of python-crfsuite. It can be shared by threads as far as `tag`
    with a sequence is concerned; `set`, `probability` and `marginal` refer to the last tagged sequence.

    Parameters
    ----------
    model : path or CRF, optional
        A model file of CRFsuite, or a model over your own features, such as `load` and `bridle.load` return. Without
        it, call `open`.
    rules : iterable of Rule or str, default ()
        Rules, or sentences that are read as rules.
    tokens : callable, optional
        Returns the texts of the tokens, given the features of a sequence, for rules that refer to them, such as
        ``fix ZipCode at tokens /\\d{5}/``.
    on_infeasible : {"raise", "relax", "skip"}, default "raise"
        What `tag` does with a sequence of which no labelling obeys the hard rules: raise `Infeasible`, break the fewest
        rules, or return no labels.
    scheme : {"auto", None, "IO", "BIO", "BIOES", "BMES"}, default "auto"
        Tagging scheme of the labels of a CRFsuite model.
    **options : object
        Further options of `Decoder`, for example ``time_limit=0.1``.

    Raises
    ------
    ModelFileError
        If the file cannot be read, is cut off or altered, or is not a model of CRFsuite.
    RuleError
        If a rule does not make sense for the labels of the model.

    Examples
    --------
    >>> import bridle
    >>> model = bridle.CRF(c2=1.0).fit([[["w=a"], ["w=b"], {"w": "b"}]], [["X", "Y", "Y"]])
    >>> Tagger(model).tag([["w=a"], ["w=b"], ["w=b"]])
    ['X', 'Y', 'Y']
    >>> Tagger(model, rules=["at most 1 token of Y"]).tag([["w=a"], ["w=b"], ["w=b"]]).count("Y")
    1
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | CRF | None = None,
        *,
        rules: Iterable[Rule | str] = (),
        tokens: Callable[[Any], Sequence[str]] | None = None,
        on_infeasible: OnInfeasible = "raise",
        scheme: str | None = "auto",
        **options: Any,
    ) -> None:
        self._rules, self._tokens, self._scheme = as_rules(rules), tokens, scheme
        self._options = {"on_infeasible": on_infeasible, **options}
        self._model: CRF | None = None
        if isinstance(model, CRF):
            self._use(model)
        elif model is not None:
            self.open(model)
        else:
            Decoder(["O"], **self._options)  # raises at once if an option is wrong

    # ---- models -----------------------------------------------------------------------------------------------------

    def open(self, name: str | os.PathLike[str]) -> contextlib.closing[Tagger]:
        """Open a model file of CRFsuite; the result closes the tagger at the end of a ``with`` statement."""
        self._use(load(name, scheme=self._scheme))
        return contextlib.closing(self)

    def open_inmemory(self, value: bytes) -> contextlib.closing[Tagger]:
        """Open the content of a model file, as `open` does."""
        try:
            data = bytes(memoryview(value))
        except TypeError:
            raise ModelFileError("this is not the content of a file", got=shown(value), wanted="bytes") from None
        self._use(build_model(parse_contents(data), self._scheme))
        return contextlib.closing(self)

    def close(self) -> None:
        """Close the model; the tagger can open another one."""
        self._model = None

    def _use(self, model: CRF) -> None:
        if not isinstance(getattr(model, "features_", None), PlainFeatures):
            raise ModelError(
                "this model makes its own features",
                got=shown(model),
                wanted="a trained model with features=None, or one of CRFsuite",
                cause="Call its own predict, which takes texts.",
            )
        decoder = model.decoder(self._rules, **self._options)
        self._native, kernel = build_kernel(model), decoder.kernel
        self._compiled = kernel.rules if decoder.rules and kernel is not None else None
        self._needs_decoder = bool(decoder.rules) and self._compiled is None  # the kernel cannot apply the rules
        self._kernel, self._decoder, self._model = -1 if kernel is None else kernel.number, decoder, model
        self._needs_texts = "tokens" in decoder.required_inputs
        self._marginals: Scores | None = None  # of the current sequence, once computed

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_rules", "_tokens", "_scheme", "_options", "_model")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._model is not None:
            self._use(self._model)

    @property
    def model(self) -> CRF:
        """The model; raises `ModelError` if none is open."""
        return self._check_open()

    @property
    def decoder(self) -> Decoder:
        """The decoder with the rules; raises `ModelError` if no model is open."""
        self._check_open()
        return self._decoder

    def labels(self) -> list[str]:
        """Return the labels of the model, in the order of their ids."""
        return list(self.model.labels_.names)

    # ---- sequences --------------------------------------------------------------------------------------------------

    def tag(self, xseq: Any = None, given: Given | None = None) -> list[str]:
        """Find the best labels of a sequence under the rules.

        Parameters
        ----------
        xseq : list, optional
            Features of each token: a list of strings, or a dict of names and values. An `ItemSequence` of
            python-crfsuite works too, but takes longer than the features that it was made of. If omitted, the sequence
            that was tagged or set last.
        given : mapping, optional
            Values that the rules refer to by name.

        Returns
        -------
        list of str
            One label per token.

        Raises
        ------
        FeatureError
            If a token has no features.
        Infeasible
            If no labelling obeys the hard rules and ``on_infeasible="raise"``.
        """
        self._check_open()
        if xseq is None:
            lattice, known = self._current()
            return self._decode(lattice, known if given is None else given)
        xseq = _as_list(xseq)
        given = self._with_texts(xseq, given)
        self._marginals = None
        answer = None if self._needs_decoder else self._native.tag(xseq, pairs_of, self._compiled, self._kernel, given)
        if answer is None:
            return self._decode(self._keep(xseq, given), given)
        if isinstance(answer, list):
            return answer
        scores, status, bound, seconds = answer
        return without_answer(self._decoder, self._lattice(scores), given, status, bound, seconds).labels

    def set(self, xseq: Any, given: Given | None = None) -> None:
        """Set the sequence for `tag`, `probability` and `marginal`; `xseq` and `given` are as in `tag`."""
        self._check_open()
        xseq = _as_list(xseq)
        given = self._with_texts(xseq, given)
        self._marginals = None
        if not self._native.set(xseq, pairs_of, given):
            self._keep(xseq, given)

    def probability(self, yseq: Sequence[str]) -> float:
        """Compute the probability of a labelling of the current sequence.

        Parameters
        ----------
        yseq : list of str
            One label per token.

        Returns
        -------
        float
            Its probability under the model, given that all hard rules hold; soft rules are not part of it. 0 if it
            breaks a hard rule, or the sequence is empty.

        Raises
        ------
        LabelError
            If one is not a label, or there is not one label per token.
        """
        lattice, given = self._current()
        if isinstance(yseq, bytes) or not isinstance(yseq, Iterable):
            raise LabelError("the labels are not a list", got=shown(yseq), wanted="a list of strings")
        yseq = list(yseq)
        if len(yseq) != len(lattice):
            raise LabelError(
                "the labels do not fit the sequence",
                got=f"{len(yseq)} labels",
                wanted=f"{len(lattice)}, one per token",
                cause="Call tag(xseq) or set(xseq) with the sequence first.",
            )
        if not len(lattice):
            return 0.0
        ids = np.array([self._id(y) for y in yseq], dtype=np.intp)
        problem = Problem.of_one(self._decoder.compiled, lattice, given)
        return math.exp(log_probability(problem, ids, self._decoder.limits.time_limit))

    def marginal(self, y: str, pos: int) -> float:
        """Compute the probability of a label at a position of the current sequence.

        Parameters
        ----------
        y : str
            The label.
        pos : int
            The position, from 0.

        Returns
        -------
        float
            Its probability under the model, given that all hard rules hold; soft rules are not part of it.

        Raises
        ------
        LabelError
            If this is not a label, or there is no such position.
        Infeasible
            If no labelling obeys the hard rules.
        """
        self._check_open()
        table = self._marginals
        if table is None:
            table = self._marginals = self._decoder.marginals(*self._current())
        try:
            at = operator.index(pos)
        except TypeError:
            raise LabelError("a position must be an integer", got=shown(pos), wanted="int, from 0") from None
        if not 0 <= at < len(table):
            wanted = f"0 to {len(table) - 1}" if len(table) else "a sequence: call tag(xseq) or set(xseq) first"
            raise LabelError("there is no such position", got=at, wanted=wanted)
        return float(table[at, self._id(y)])

    def info(self) -> Info:
        """Return labels, attributes and weights of the model.

        Unlike with python-crfsuite, attributes may have line breaks, and weights have all their digits.
        """
        return collect_info(self._check_open())

    # ---- internals --------------------------------------------------------------------------------------------------

    def _check_open(self) -> CRF:
        if self._model is None:
            raise ModelError("the tagger has no model", got="the tagger is closed", wanted="open(path) first")
        return self._model

    def _id(self, y: Any) -> int:
        try:
            return self._decoder.labels.id(y)
        except LabelError as error:  # without the suggestion of segment types, which only rules can name
            raise LabelError(error.what, got=error.got, wanted=f"one of {shown(self.labels(), 200)}") from None

    def _current(self) -> tuple[Lattice, Given | None]:
        """Return the scores and given values of the sequence that was tagged or set last."""
        self._check_open()
        scores, given = self._native.current()
        return self._lattice(scores), given

    def _lattice(self, scores: bytes) -> Lattice:
        unary = np.frombuffer(scores).reshape(-1, len(self.model.labels_.names))
        return Lattice(unary, self.model.linear_.pairwise)

    def _keep(self, xseq: Any, given: Given | None) -> Lattice:
        """Score a sequence that the kernel cannot read, and make it the current one."""
        lattice = self.model.lattice(xseq)
        unary = np.asarray(lattice.unary, dtype=np.float64)
        self._native.keep(unary, given)
        return Lattice(unary, lattice.pairwise)

    def _decode(self, lattice: Lattice, given: Given | None) -> list[str]:
        if self._decoder.rules:
            return self._decoder.decode(lattice, given).labels
        return self._native.best(np.asarray(lattice.unary, dtype=np.float64))

    def _with_texts(self, xseq: Any, given: Given | None) -> Given | None:
        """Add the texts of the tokens to the given values if rules refer to them."""
        if given is not None and not isinstance(given, Mapping):
            raise not_a_dict(given, None)
        if self._tokens is None or not self._needs_texts or (given is not None and "tokens" in given):
            return given
        return {**(given or {}), "tokens": self._tokens(xseq)}


def _as_list(xseq: Any) -> Any:
    """Return a sequence as a list or a tuple, reading iterators once."""
    if isinstance(xseq, (list, tuple)):
        return xseq
    if not isinstance(xseq, Iterable) and hasattr(xseq, "items"):  # an ItemSequence of python-crfsuite
        return xseq.items()
    if isinstance(xseq, (str, bytes, Mapping)) or not isinstance(xseq, Iterable):
        raise FeatureError("this is not a sequence", got=shown(xseq), wanted="a list or a dict of features per token")
    return list(xseq)
