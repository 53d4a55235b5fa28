"""Methods of a decoder that sum over labellings: probabilities, log-partitions, samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.deadline import stopping
from bridle.decoding import marginals as sums
from bridle.decoding.marginals import Probability, SoftSums
from bridle.decoding.problem import Problem
from bridle.decoding.result import infeasible_on
from bridle.lattice import Batch, Lattice, Scores

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder

Given = Mapping[str, Any]
Lattices = Sequence[Lattice] | Batch


class Summing:
    """Sums over all labellings, with p(y) ~ exp(score(y)) under the hard rules.

    ``soft="ignore"`` leaves soft rules out; with ``soft="factor"``, p(y) ~ exp(score(y) - penalty(y)).
    Sums are exact but for rounding: `LatticeError` is raised where it could change the logarithm of a probability by
    more than 1e-5, which takes scores beyond about 1e9.
    """

    @property
    def _decoder(self) -> Decoder:
        return cast("Decoder", self)

    def marginals(
        self,
        lattice: Lattice,
        given: Given | None = None,
        *,
        soft: SoftSums = "ignore",
        stop: _native.Stop | None = None,
    ) -> Scores:
        """Compute the probability of each label at each position, given that all hard rules hold.

        Parameters
        ----------
        lattice : Lattice
        given : mapping, optional
            As in `decode`.
        soft : {"ignore", "factor"}, default "ignore"
            What soft rules are: no part of the model, or factors exp(-penalty).
        stop : Stop, optional
            As in `decode_batch`.

        Returns
        -------
        array of float, shape (n, m)

        Raises
        ------
        Infeasible
            If no labelling obeys the hard rules.
        LimitReached
            If the time limit was reached.
        EngineError
            If the product of all automata is too large.
        """
        blame = partial(infeasible_on, self._decoder, lattice, given)
        with stopping(stop):
            problem = Problem.of_one(self._decoder.compiled, lattice, given)
            return sums.marginals(problem, blame, self._decoder.limits.time_limit, soft)

    def probability(
        self,
        lattice: Lattice,
        given: Given | None = None,
        *,
        soft: SoftSums = "ignore",
        stop: _native.Stop | None = None,
    ) -> Probability:
        """Compute the probability, under the model, that all hard rules hold, and that of each rule alone.

        Parameters
        ----------
        lattice, given, soft, stop
            As in `marginals`.

        Returns
        -------
        Probability

        Raises
        ------
        Infeasible
            If the scores leave no path.
        LimitReached
            If the time limit, which is for all sums together, was reached.
        EngineError
            If the product of all automata is too large.
        """
        blame = partial(infeasible_on, self._decoder, lattice, given)
        with stopping(stop):
            problem = Problem.of_one(self._decoder.compiled, lattice, given)
            return sums.probability(problem, blame, self._decoder.limits.time_limit, soft)

    def marginals_batch(
        self,
        lattices: Lattices,
        given: Sequence[Given] | None = None,
        threads: int = 0,
        *,
        soft: SoftSums = "ignore",
        stop: _native.Stop | None = None,
    ) -> list[Scores]:
        """Compute the marginals of many sequences at once; several share each vector instruction.

        Parameters
        ----------
        lattices : Batch or sequence of Lattice
        given, threads, soft, stop : optional
            As in `decode_batch` and `marginals`.

        Returns
        -------
        list of array of float, shape (n, m)
            One per sequence; NaN where no labelling obeys the hard rules.

        Raises
        ------
        Infeasible
            With ``on_infeasible="raise"``, for the first sequence that no labelling of obeys the hard rules.
        """
        return sums.marginals_batch(self._decoder, lattices, given, threads, soft, stop)

    def log_partition(
        self,
        lattices: Lattices,
        given: Sequence[Given] | None = None,
        threads: int = 0,
        *,
        soft: SoftSums = "ignore",
        stop: _native.Stop | None = None,
    ) -> npt.NDArray[np.float64]:
        """Compute log Z, the logarithm of the sum of exp(score) over the labellings that obey the hard rules.

        Parameters
        ----------
        lattices : Batch or sequence of Lattice
        given, threads, soft, stop : optional
            As in `decode_batch` and `marginals`.

        Returns
        -------
        array of float, shape (sequences,)
            -inf where no labelling obeys the hard rules.

        Examples
        --------
        >>> import bridle
        >>> decoder = bridle.Decoder(bridle.Labels(["O", "X"]), ["at most 1 token of X"])
        >>> decoder.log_partition([bridle.Lattice([[0, 0], [0, 0]])]).round(3)  # log 3
        array([1.099])
        """
        return sums.sum_batch(self._decoder, lattices, given, threads, soft, stop)[0].log_partition

    def entropy(
        self,
        lattices: Lattices,
        given: Sequence[Given] | None = None,
        threads: int = 0,
        *,
        soft: SoftSums = "ignore",
        stop: _native.Stop | None = None,
    ) -> npt.NDArray[np.float64]:
        """Compute the entropy, in nats, of the labelling of each sequence under the hard rules.

        Parameters
        ----------
        lattices : Batch or sequence of Lattice
        given, threads, soft, stop : optional
            As in `decode_batch` and `marginals`.

        Returns
        -------
        array of float, shape (sequences,)
            NaN where no labelling obeys the hard rules.
        """
        entropy = sums.sum_batch(self._decoder, lattices, given, threads, soft, stop, entropy=True)[0].entropy
        assert entropy is not None
        return entropy

    def sample(
        self,
        lattices: Lattices,
        n: int,
        given: Sequence[Given] | None = None,
        threads: int = 0,
        *,
        seed: int = 0,
        soft: SoftSums = "ignore",
        stop: _native.Stop | None = None,
    ) -> list[npt.NDArray[np.int32]]:
        """Draw labellings of each sequence from the model under the hard rules, exactly.

        Parameters
        ----------
        lattices : Batch or sequence of Lattice
        n : int
            How many labellings of each.
        given, threads : optional
            As in `decode_batch`.
        seed : int, default 0
            Seed of the random number generator. The labellings do not depend on `threads`.
        soft, stop : optional
            As in `marginals`.

        Returns
        -------
        list of array of int, shape (n, tokens)
            Label ids; shape (0, tokens) where no labelling obeys the hard rules.

        Raises
        ------
        Infeasible
            With ``on_infeasible="raise"``, for the first sequence that no labelling of obeys the hard rules.
        """
        return sums.samples(self._decoder, lattices, n, given, seed, threads, soft, stop)
