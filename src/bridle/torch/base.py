"""The layer's parameters and rules, the way to the kernels, and answers; crf.py adds the losses."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from bridle.decoding.decoder import Decoder
from bridle.decoding.result import Decoding, Decodings
from bridle.errors import EngineError, LabelError, LatticeError
from bridle.explain import Explanation
from bridle.labels import Labels
from bridle.rules import parse, well_formed
from bridle.rules.base import Rule, Soft
from bridle.rules.loading import as_rules
from bridle.torch.sums import Given, Scores, split, to_host

_STATE = "bridle.torch.ConstrainedCRF 1"
_LEAST = 1e-3  # of a penalty that is to be learned: below, its gradient vanishes


class RuledLayer(nn.Module):
    """Parameters of a CRF, its rules and the decoders under them; answers and saved weights."""

    def __init__(
        self,
        labels: Labels | Iterable[str] | int,
        rules: Iterable[Rule | str] = (),
        *,
        batch_first: bool = False,
        learn_penalties: bool = True,
        on_infeasible: Literal["raise", "skip"] = "raise",
        threads: int = 1,
        time_limit: float | None = None,
        max_memory: int | None = None,
    ) -> None:
        super().__init__()
        if on_infeasible not in ("raise", "skip"):
            raise EngineError("unknown `on_infeasible`", got=repr(on_infeasible), wanted="'raise' or 'skip'")
        if isinstance(labels, int):
            if labels <= 0:
                raise LabelError("a CRF needs labels", got=labels, wanted="1 label or more")
            labels = Labels([str(k) for k in range(labels)], scheme=None)
        self.labels = labels if isinstance(labels, Labels) else Labels(labels)
        self.batch_first, self.on_infeasible, self.threads, self.skipped = batch_first, on_infeasible, threads, 0
        self._limits: dict[str, Any] = {"time_limit": time_limit}
        if max_memory is not None:
            self._limits["max_memory"] = max_memory
        m = len(self.labels)
        self.transitions = nn.Parameter(torch.empty(m, m))
        self.start_transitions = nn.Parameter(torch.empty(m))
        self.end_transitions = nn.Parameter(torch.empty(m))
        self._set_rules(tuple(as_rules(rules)))
        soft = [rule.penalty for rule in self.rules if isinstance(rule, Soft)]
        raw = [p + math.log(-math.expm1(-p)) for p in (max(p, _LEAST) for p in soft)]  # the inverse of softplus
        self.raw_penalties = nn.Parameter(torch.tensor(raw, dtype=torch.float32), requires_grad=learn_penalties)
        self.reset_parameters()

    def _set_rules(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        grammar = [well_formed()] if self.labels.scheme not in (None, "IO") else []
        self._grammar = Decoder(self.labels, grammar, on_infeasible="skip", **self._limits)
        held = [*grammar, *(rule for rule in rules if rule not in grammar)]
        self._decoder = Decoder(self.labels, held, on_infeasible="skip", **self._limits)
        self._priced = self._decoder  # with the penalties of now
        self._alone: dict[int, Decoder] = {}

    def reset_parameters(self) -> None:
        """Draw transitions, start and end from -0.1 .. 0.1, as ``torchcrf.CRF`` does."""
        for parameter in (self.start_transitions, self.end_transitions, self.transitions):
            nn.init.uniform_(parameter, -0.1, 0.1)

    @property
    def num_tags(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def penalties(self) -> Tensor:
        """The penalties of the soft rules, (soft rules,)."""
        return nn.functional.softplus(self.raw_penalties)

    @property
    def priced_rules(self) -> tuple[Rule, ...]:
        """The rules for a `Decoder`: the scheme's grammar, and soft rules with their penalties of now."""
        prices = self._prices(self.penalties.detach().cpu().double().numpy())
        return tuple(self._with_penalties(prices).rules)

    def extra_repr(self) -> str:
        """Describe the layer in one line."""
        return f"num_tags={self.num_tags}, rules={len(self.rules)}, batch_first={self.batch_first}"

    # ---- answers ----------------------------------------------------------------------------------------------------

    def decode(self, emissions: Tensor, mask: Tensor | None = None, given: Given = None) -> list[list[int]]:
        """Find the best labelling of each sequence under the rules.

        Parameters
        ----------
        emissions, mask, given
            As in `nll`.

        Returns
        -------
        list of list of int
            Label ids of the tokens of each sequence, as ``torchcrf.CRF`` gives them.

        Raises
        ------
        Infeasible
            If no labelling of a sequence obeys the hard rules.
        """
        ids = self.decodings(emissions, mask, given=given).ids.tolist()
        ends = np.concatenate([[0], np.cumsum(self._lengths(emissions, mask))])
        return [ids[low:high] for low, high in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]

    def decodings(
        self, emissions: Tensor, mask: Tensor | None = None, *, given: Given = None, on_infeasible: str = "raise"
    ) -> Decodings:
        """Decode a batch; the answers come with scores, bounds and violations, as in `Decoder.decode_batch`.

        Parameters
        ----------
        emissions, mask, given
            As in `nll`.
        on_infeasible : {"raise", "relax", "skip"}, default "raise"
            As in `Decoder`.

        Returns
        -------
        Decodings
        """
        scores, prices = self._scores(emissions, mask)
        decoder = self._with_penalties(prices)
        decoder = decoder.with_rules(decoder.rules, on_infeasible=on_infeasible)  # type: ignore[arg-type]
        return decoder.decode_batch(scores.batch, given, self.threads)

    def k_best(
        self, emissions: Tensor, k: int, mask: Tensor | None = None, *, given: Given = None
    ) -> list[list[Decoding]]:
        """Find the k best labellings of each sequence, as `Decoder.k_best` does.

        Parameters
        ----------
        emissions, mask, given
            As in `nll`.
        k : int
            Number of labellings.

        Returns
        -------
        list of list of Decoding
        """
        scores, prices = self._scores(emissions, mask)
        decoder = self._with_penalties(prices)
        values = given or [None] * len(scores.batch)  # type: ignore[list-item]
        return [decoder.k_best(scores.batch[b], k, value) for b, value in enumerate(values)]

    def marginals(self, emissions: Tensor, mask: Tensor | None = None, *, given: Given = None) -> Tensor:
        """Compute the probability of each label at each token under the rules; no gradient.

        Parameters
        ----------
        emissions, mask, given
            As in `nll`.

        Returns
        -------
        Tensor
            In the shape of the emissions; 0 for padding.
        """
        out = torch.from_numpy(self.posterior_of(emissions, mask, given=given).emissions).to(emissions.device)
        return out if self.batch_first else out.transpose(0, 1)

    def explain(self, emissions: Tensor, given: Mapping[str, Any] | None = None) -> Explanation:
        """Explain the labelling of one sequence, as `Decoder.explain` does.

        Parameters
        ----------
        emissions : Tensor, shape (tokens, m)
        given : mapping, optional
            What the rules refer to.

        Returns
        -------
        Explanation
        """
        batch = emissions[None] if self.batch_first else emissions[:, None]
        scores, prices = self._scores(batch, None)
        return self._with_penalties(prices).explain(scores.batch[0], given)

    # ---- weights ----------------------------------------------------------------------------------------------------

    def get_extra_state(self) -> Tensor:
        """Return labels and rules as the bytes of a JSON text."""
        labels = {"names": list(self.labels.names), "scheme": self.labels.scheme, "outside": self.labels.all_outside}
        state = {"format": _STATE, "labels": labels, "rules": [str(rule) for rule in self.rules]}
        return torch.frombuffer(bytearray(json.dumps(state, default=list).encode()), dtype=torch.uint8).clone()

    def set_extra_state(self, state: Tensor) -> None:
        """Take the rules of a saved layer; raise `LabelError` if its labels are others."""
        labels, rules = _state(state)
        if labels != self.labels:
            raise LabelError("the weights belong to other labels", got=repr(labels), wanted=repr(self.labels))
        if rules != self.rules:
            self._set_rules(rules)

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any], **options: Any) -> Self:
        """Make a layer of saved weights, whose labels and rules are inside.

        Parameters
        ----------
        state : mapping
            The `state_dict` of a layer.
        **options : object
            Other arguments of the layer, such as ``batch_first=True``.

        Returns
        -------
        ConstrainedCRF
        """
        labels, rules = _state(state.get("_extra_state"))
        layer = cls(labels, rules, **options)
        layer.load_state_dict(state)
        return layer

    @classmethod
    def from_pytorch_crf(
        cls, crf: Any, labels: Labels | Iterable[str] | None = None, rules: Iterable[Rule | str] = (), **options: Any
    ) -> Self:
        """Make a layer with the weights of a ``torchcrf.CRF``.

        Parameters
        ----------
        crf : torchcrf.CRF
        labels : Labels or iterable of str, optional
            Names of the labels; by default they have none.
        rules : iterable of Rule or str
        **options : object
            Other arguments of the layer; ``batch_first`` is that of `crf` by default.

        Returns
        -------
        ConstrainedCRF
        """
        layer = cls(crf.num_tags if labels is None else labels, rules, **{"batch_first": crf.batch_first, **options})
        if layer.num_tags != crf.num_tags:
            raise LabelError("labels and weights differ in number", got=layer.num_tags, wanted=crf.num_tags)
        with torch.no_grad():
            for name in ("transitions", "start_transitions", "end_transitions"):
                getattr(layer, name).copy_(getattr(crf, name))
        return layer

    # ---- the way to the kernels ---------------------------------------------------------------------------------

    def _padded(self, emissions: Tensor, mask: Tensor | None) -> tuple[Tensor, npt.NDArray[np.bool_] | None]:
        """Return emissions (B, T, m) in a precision that the kernels have, and the mask (B, T)."""
        if emissions.ndim != 3 or emissions.shape[-1] != self.num_tags:
            raise LatticeError(
                "emissions do not fit the labels",
                got=tuple(emissions.shape),
                wanted=f"({'batch, tokens' if self.batch_first else 'tokens, batch'}, {self.num_tags})",
            )
        if mask is not None and mask.shape != emissions.shape[:2]:
            raise LatticeError(
                "the mask does not fit the emissions", got=tuple(mask.shape), wanted=tuple(emissions.shape[:2])
            )
        grid = emissions if self.batch_first else emissions.transpose(0, 1)
        grid = grid if grid.dtype in (torch.float32, torch.float64) else grid.float()
        flags = (
            None if mask is None else (mask if self.batch_first else mask.transpose(0, 1)).detach().cpu().numpy() != 0
        )
        return grid, flags

    def _lengths(self, emissions: Tensor, mask: Tensor | None) -> npt.NDArray[np.int64]:
        grid, flags = self._padded(emissions, mask)
        return np.full(grid.shape[0], grid.shape[1]) if flags is None else flags.sum(axis=1)

    def _scores(self, emissions: Tensor, mask: Tensor | None) -> tuple[Scores, npt.NDArray[np.float64] | None]:
        grid, flags = self._padded(emissions, mask)
        tables = self.transitions, self.start_transitions, self.end_transitions
        arrays = to_host([x.to(grid.dtype) for x in (grid, *tables, self.penalties)])
        return Scores(arrays[0].numpy(), flags, *(x.numpy() for x in arrays[1:4])), self._prices(
            arrays[4].numpy().astype(np.float64)
        )

    def _prices(self, soft: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
        """Return a price for each rule of the decoder; None: no rule is soft."""
        numbers = split(self._decoder)[1]
        if not numbers:
            return None
        prices = np.zeros(len(self._decoder.rules))
        prices[numbers] = soft
        return prices

    def _with_penalties(self, prices: npt.NDArray[np.float64] | None) -> Decoder:
        """Return the decoder with these penalties."""
        if prices is None:
            return self._decoder
        rules = [
            rule.rule.soft(float(price), rule.per) if isinstance(rule, Soft) else rule
            for rule, price in zip(self._decoder.rules, prices, strict=True)
        ]
        if list(self._priced.rules) != rules:
            self._priced = self._decoder.with_rules(rules)
        return self._priced


def _state(state: Any) -> tuple[Labels, tuple[Rule, ...]]:
    """Read labels and rules of a saved layer."""
    try:
        content = json.loads(bytes(state.cpu().numpy().tobytes()))
        if content["format"] != _STATE:
            raise ValueError(content["format"])
        labels = content["labels"]
        outside = labels["outside"]
        return Labels(labels["names"], labels["scheme"], outside=outside), tuple(
            parse(text) for text in content["rules"]
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LabelError(
            "the weights do not hold the labels and rules of a ConstrainedCRF",
            got=f"{type(error).__name__}: {error}",
            wanted="the state_dict of a ConstrainedCRF",
        ) from error
