"""Documents: sequences that are decoded together, with rules that reach across them.

1. The sentences, each with its own rules, and the groups of tokens that should agree go to the kernels together
   (cpp/search/agreement.h). The answer bounds all labellings of the document; most often it breaks no other rule about
   the document either, and then it is the best one.
2. If it does, or if no labelling obeys the rules, the sentences are joined to one sequence with a break between two of
   them (rules/documents.py), which any engine decodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bridle import _native
from bridle.decoding.problem import (
    FAILED,
    INFEASIBLE,
    LIMIT,
    NOTHING_FOUND,
    OPTIMAL,
    Answers,
    Problem,
    check_given,
    check_lattices,
    offsets_of,
)
from bridle.decoding.result import Answer, Decoding, Decodings, Status, Unanswered, code_of, status_of
from bridle.decoding.threads import over_parts, thread_count
from bridle.engines import Search
from bridle.errors import BridleError, GivenError, Infeasible, LimitReached, RuleError
from bridle.labels import Labels
from bridle.lattice import Batch, Lattice
from bridle.rules.base import Rule, Soft
from bridle.rules.compiled import CompiledRules, mode_of, to_native
from bridle.rules.documents import (
    SENTENCES,
    InDocument,
    JoinedSentences,
    broken_labels,
    cost_in_document,
    count_in_document,
    groups_of_document,
    hard_part,
    joined_rule,
)
from bridle.rules.equal import SameLabelForEqual

if TYPE_CHECKING:
    from bridle.decoding.decoder import Decoder

Given = Mapping[str, Any]
Sentences = Batch | Sequence[Lattice]


@dataclass(frozen=True, eq=False)
class DocumentDecoding(Answer):
    """The best labelling of a document, with its proof. `Decoder.decode_document` creates it.

    Attributes
    ----------
    labels : list of list of str
        The labelling of each sentence, by names; empty if there is no answer.
    ids : list of array of int32
        The same by ids.
    status : {"optimal", "limit", "relaxed", "infeasible", "nothing_found"}
        As in `Decoding`, of the document as a whole.
    relaxed : bool
        True if the status is "relaxed".
    score : float
        Sum of the lattice scores of all sentences, minus penalty; -inf if there is no answer.
    penalty : float
        Sum of the penalties of violated soft rules.
    violated : list of (Rule, int)
        The violated soft rules, and how often; if relaxed, also the hard rules. A rule about sentences whose penalty is
        charged once per sequence counts once per sentence.
    bound : float
        No labelling of the document under the rules scores higher.
    optimal : bool
        True if bound and score meet and, if relaxed, the number of violations is proved to be the least.
    stats : dict
        Statistics of the engine.
    clash : tuple of Rule
        If infeasible: a minimal set of hard rules that contradict each other. It is computed when you read it.
    label_set : Labels
        The labels that `ids` are numbers of.
    unanswered : Unanswered, UnansweredDocument or None
        If there is no answer: its `error` says why.

    Examples
    --------
    >>> import bridle
    >>> rule = "in the document: same label for equal tokens"
    >>> sentences = [bridle.Lattice([[0, 3, 0], [1, 0, 0]]), bridle.Lattice([[0, 0, 1]])]
    >>> given = [{"tokens": ["Paris", "won"]}, {"tokens": ["Paris"]}]
    >>> d = bridle.Decoder(["O", "LOC", "PER"], [rule]).decode_document(sentences, given)
    >>> d.labels, d.score, d.status
    ([['LOC', 'O'], ['LOC']], 4.0, 'optimal')
    """

    ids: list[npt.NDArray[np.int32]]
    score: float
    penalty: float
    violated: list[tuple[Rule, int]]
    bound: float
    optimal: bool
    stats: dict[str, Any]
    label_set: Labels = field(repr=False)
    status: Status = "optimal"
    unanswered: Unanswered | UnansweredDocument | None = field(default=None, repr=False)

    @cached_property
    def labels(self) -> list[list[str]]:
        """The labelling of each sentence, by names."""
        names = self.label_set.names
        return [[names[y] for y in ids.tolist()] for ids in self.ids]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class UnansweredDocument:
    """A document that no labelling is left for, with the data that explain why."""

    joined: Unanswered
    rules: DocumentRules

    @cached_property
    def error(self) -> Infeasible | LimitReached:
        """The error that says why, about the rules as they were written."""
        error = self.joined.error
        if isinstance(error, Infeasible):
            error.clash = tuple(map(self.rules.original, error.clash))
        return error

    @property
    def clash(self) -> tuple[Rule, ...]:
        """Hard rules that cannot hold together."""
        return tuple(getattr(self.error, "clash", ()))


class DocumentRules:
    """The rules of a decoder, compiled for documents."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder, rules = decoder, decoder.rules
        whole = [isinstance(hard_part(rule), InDocument) for rule in rules]
        self.of_sentence = [k for k, about in enumerate(whole) if not about]
        self.agreements: list[int] = []
        self.counted: list[int] = []  # other rules about documents
        for k, about in enumerate(whole):
            if about:
                agrees = isinstance(_inner(rules[k]), SameLabelForEqual)
                (self.agreements if agrees else self.counted).append(k)
        self.apart = decoder.resolved_engine.name in ("search", "viterbi")  # may step 1 be tried?
        engine = decoder.resolved_engine if decoder.resolved_engine.name == "search" else Search()
        options = decoder.limits.native(engine, engine.native_options)
        self.compiled = CompiledRules(decoder.labels, [rules[k] for k in self.of_sentence], options)

    @cached_property
    def joined(self) -> Decoder:
        """A decoder of joined sentences."""
        decoder = self.decoder
        for rule in decoder.rules:
            if not all(names.fixed for names in rule.names()):
                raise RuleError(
                    "labels that come with each sequence cannot be joined with rules about documents",
                    got=str(rule),
                    wanted="label names in the rule",
                )
        rules = [joined_rule(rule) for rule in decoder.rules]
        limits = decoder.limits
        return type(decoder)(
            broken_labels(decoder.labels),
            rules,
            decoder.engine,
            time_limit=limits.time_limit,
            max_states=limits.max_states,
            max_memory=limits.max_memory,
            on_infeasible="relax" if decoder.on_infeasible == "relax" else "skip",
        )

    def original(self, rule: object) -> Rule:
        """Return the rule that a rule of the joined decoder was made of."""
        return next(mine for mine, its in zip(self.decoder.rules, self.joined.rules, strict=True) if its is rule)

    def groups(self, cuts: Sequence[int], sizes: Sequence[int], givens: Sequence[Given]) -> list[npt.NDArray[np.int32]]:
        """Return the groups of all tokens of documents, for each rule about agreement."""
        result = []
        for k in self.agreements:
            rule = _inner(self.decoder.rules[k])
            assert isinstance(rule, SameLabelForEqual)
            parts = [groups_of_document(rule, givens[a:b], sizes[a:b]) for a, b in pairwise(cuts)]
            result.append(np.concatenate([np.zeros(0, np.int32), *parts]))
        return result


def _inner(rule: Rule) -> Rule:
    bare = hard_part(rule)
    return bare.rule if isinstance(bare, InDocument) else bare


def decode_all(
    decoder: Decoder, lattices: Sentences, cuts: Sequence[int], givens: Sequence[Given] | None, *, first: int = 0
) -> list[DocumentDecoding]:
    """Decode documents whose sentences follow each other; cuts (D + 1): the first sentence of each.

    Documents without an answer have none, whatever `on_infeasible` says, unless they can be relaxed.
    """
    rules, labels = decoder._document_rules, decoder.labels
    values: Sequence[Given] = [{}] * len(lattices) if givens is None else givens
    decodings: list[DocumentDecoding] = []
    if not rules.apart:
        return [rules_joined(rules, lattices, values, a, b, None) for a, b in pairwise(cuts)]
    problem = Problem(rules.compiled, lattices, givens, first=first, many=len(cuts) > 2 or len(lattices) > 1)
    offsets, D = problem.offsets, len(cuts) - 1
    sizes = np.diff(offsets).tolist()
    agreements = []
    for k, groups in zip(rules.agreements, rules.groups(cuts, sizes, values), strict=True):
        rule, inner = decoder.rules[k], _inner(decoder.rules[k])
        (table,) = inner.tables((), labels, (0, 1))
        agreements.append((mode_of(rule), rule.penalty if isinstance(rule, Soft) else 0.0, to_native(table), groups))
    ids = np.zeros(int(offsets[-1]), dtype=np.int32)
    score, bound, seconds = np.full(D, -np.inf), np.full(D, np.inf), np.zeros(D)
    status = np.full(D, NOTHING_FOUND, dtype=np.uint8)
    violations = np.zeros((len(lattices), len(rules.of_sentence)), dtype=np.int32)
    changes, counters = np.zeros((D, len(agreements)), dtype=np.int32), np.zeros((D, 6), dtype=np.int64)
    at = np.asarray(cuts, dtype=np.int64)
    problem.native().decode_documents(
        at, agreements, problem.stop, ids, score, bound, status, violations, changes, counters, seconds
    )
    for d, (low, high) in enumerate(pairwise(cuts)):
        sentences = [ids[offsets[b] : offsets[b + 1]] for b in range(low, high)]
        code, limit = int(status[d]), decoder.limits.time_limit
        left = None if limit is None else max(0.0, limit - float(seconds[d]))
        counts = dict(zip(rules.agreements, changes[d].tolist(), strict=True))
        for column, k in enumerate(rules.of_sentence):
            of_each = violations[low:high, column]
            rule = decoder.rules[k]
            once = isinstance(rule, Soft) and rule.per == "sequence"
            counts[k] = int(np.minimum(of_each, 1).sum() if once else of_each.sum())
        if code <= LIMIT:
            for k in rules.counted:
                its = [y.tolist() for y in sentences]
                counts[k] = count_in_document(decoder.rules[k], its, labels, values[low:high])
        if code == INFEASIBLE or any(counts.get(k) for k in rules.counted):
            decodings.append(rules_joined(rules, lattices, values, low, high, left, float(bound[d])))
            continue
        violated = [(decoder.rules[k], counts[k]) for k in sorted(counts) if counts[k]]
        penalty = float(sum(cost_in_document(rule, count) for rule, count in violated))
        stats = dict(zip(Search.counters, counters[d].tolist(), strict=True))
        unanswered = None
        if code == NOTHING_FOUND:
            sentences, violated, penalty = [y[:0] for y in sentences], [], 0.0
            empty = Lattice(np.zeros((0, len(labels))))
            unanswered = Unanswered(decoder, empty, None, "nothing_found", float(bound[d]))
        decodings.append(
            DocumentDecoding(
                sentences,
                float(score[d]),
                penalty,
                violated,
                float(bound[d]),
                code == OPTIMAL,
                stats,
                labels,
                status_of(code),
                unanswered,
            )
        )
    return decodings


def rules_joined(
    rules: DocumentRules,
    lattices: Sentences,
    givens: Sequence[Given],
    low: int,
    high: int,
    seconds: float | None,
    bound: float = np.inf,
) -> DocumentDecoding:
    """Decode sentences low .. high-1 as one sequence; seconds: what is left of the time limit."""
    sentences = [lattices[b] for b in range(low, high)]
    joined = JoinedSentences.of([len(x) for x in sentences], givens[low:high])
    whole, kernel = join_lattices(sentences, joined, len(rules.decoder.labels)), rules.joined.kernel
    if kernel is None:
        decoding = rules.joined.decode(whole, joined.given)
    else:
        decoding = rules.joined._decode_by(kernel, whole, joined.given, seconds)
    if decoding.status in ("limit", "nothing_found"):
        decoding = replace(decoding, bound=min(decoding.bound, max(bound, decoding.score)))
    return split_decoding(rules, decoding, joined)


def split_decoding(rules: DocumentRules, decoding: Decoding, joined: JoinedSentences) -> DocumentDecoding:
    """Return the decoding of a joined sequence as that of a document."""
    sizes = [size for _, size, _ in joined.given[SENTENCES]]
    ids = [decoding.ids[start : start + n] for start, n in zip(joined.starts, sizes, strict=True)]
    if decoding.unanswered is not None:
        ids = [y[:0] for y in ids]
    violated = [(rules.original(rule), count) for rule, count in decoding.violated]
    unanswered = decoding.unanswered
    return DocumentDecoding(
        ids,
        decoding.score,
        decoding.penalty,
        violated,
        decoding.bound,
        decoding.optimal,
        decoding.stats,
        rules.decoder.labels,
        decoding.status,
        None if unanswered is None else UnansweredDocument(unanswered, rules),
    )


def join_lattices(sentences: Sequence[Lattice], joined: JoinedSentences, m: int) -> Lattice:
    """Return the lattice of a joined sequence: a break is entered by end scores and left by start scores."""
    unary = np.full((joined.size, m + 1), -np.inf)
    unary[:, m] = 0.0
    for start, x in zip(joined.starts, sentences, strict=True):
        unary[start : start + len(x), :m] = x.unary
        unary[start : start + len(x), m] = -np.inf
    heads = {(id(x.pairwise), id(x.start), id(x.end)) for x in sentences}
    if len(heads) <= 1 and sentences and (sentences[0].pairwise is None or sentences[0].pairwise.ndim == 2):
        x = sentences[0]
        if x.pairwise is None and x.start is None and x.end is None:
            return Lattice(unary)
        return Lattice(unary, _table(x, x.pairwise), *_ends(x, x))
    steps = np.zeros((max(joined.size - 1, 0), m + 1, m + 1))
    for start, x in zip(joined.starts, sentences, strict=True):
        n = len(x)
        steps[start : start + max(n - 1, 0)] = _table(x, None)
        if n > 1 and x.pairwise is not None:
            steps[start : start + n - 1, :m, :m] = x.pairwise
        if start > 0 and n:
            steps[start - 1, m, :m] = 0.0 if x.start is None else x.start
        if n and start + n - 1 < len(steps):
            steps[start + n - 1, :m, m] = 0.0 if x.end is None else x.end
    return Lattice(unary, steps, *_ends(sentences[0], sentences[-1])) if sentences else Lattice(unary)


def _table(x: Lattice, pairwise_scores: Any) -> npt.NDArray[np.float64]:
    """Return the transition scores (m + 1, m + 1) between labels, and from and to a break."""
    m = x.n_labels
    table = np.zeros((m + 1, m + 1))
    if pairwise_scores is not None:
        table[:m, :m] = pairwise_scores
    table[m, :m] = 0.0 if x.start is None else x.start
    table[:m, m] = 0.0 if x.end is None else x.end
    return table


def _ends(first: Lattice, last: Lattice) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return start and end scores, which are not for a break."""
    m = first.n_labels
    start, end = np.zeros(m + 1), np.zeros(m + 1)
    start[:m] = 0.0 if first.start is None else first.start
    end[:m] = 0.0 if last.end is None else last.end
    return start, end


def cuts_of(groups: Sequence[Any]) -> list[int]:
    """Return where documents begin, by the document of each sequence; one that comes back later is an error."""
    cuts, seen = [0], set()
    for b, name in enumerate(groups):
        if b and name == groups[b - 1]:
            continue
        if name in seen:
            raise GivenError(
                "a document comes back after another one",
                got=repr(name),
                wanted="the sequences of a document in a row",
                sequence=b,
                cause="Sort the sequences by document, or give each its own id.",
            )
        seen.add(name)
        if b:
            cuts.append(b)
    return [*cuts, len(groups)] if len(groups) else cuts


def packed_documents(
    decoder: Decoder,
    documents: Sequence[DocumentDecoding | BridleError],
    cuts: Sequence[int],
    lattices: Sentences,
    givens: Sequence[Given] | None,
    errors: dict[int, BridleError],
) -> Decodings:
    """Return the decodings of documents, sentence by sentence.

    Status, score and bound of a sentence are those of its document. Violations of a rule about the document are those
    of its first sentence. cuts (D + 1): the first sentence of each; errors: of sentences, to which those of documents
    are added.
    """
    offsets, rules = offsets_of(lattices), decoder.rules
    answers = Answers.blank(offsets, len(rules), len(decoder.resolved_engine.counters))
    answers.stats = [{}] * len(lattices)
    unanswered, relaxed = dict[int, Any](), dict[int, dict[str, Any]]()
    for document, (low, high) in zip(documents, pairwise(cuts), strict=True):
        rows = range(low, high)
        if isinstance(document, BridleError):
            errors.update({b: document for b in rows if b not in errors})
            continue
        answers.score[low:high], answers.bound[low:high] = document.score, document.bound
        answers.status[low:high] = code_of(document.status)
        answers.stats[low:high] = [document.stats] * len(rows)
        if document.unanswered is not None:
            unanswered.update(dict.fromkeys((b for b in rows if b not in errors), document.unanswered))
            continue
        for b, ids in zip(rows, document.ids, strict=True):
            answers.ids[offsets[b] : offsets[b + 1]] = ids
        for rule, count in document.violated:
            k = rules.index(rule)
            if hard_part(rule).of_document:
                answers.violations[low, k] = count
                continue
            for b, ids in zip(rows, document.ids, strict=True):
                answers.violations[b, k] = rule.violations(ids, decoder.labels, None if givens is None else givens[b])
        if document.relaxed:
            relaxed.update({b: {**document.stats, "optimal": document.optimal} for b in rows})
    answers.status[list(errors)] = FAILED
    return Decodings(decoder, answers, offsets, unanswered, relaxed, errors)


class DecodesDocuments:
    """Methods of `Decoder` for documents."""

    rules: tuple[Rule, ...]

    @property
    def about_documents(self) -> bool:
        """True if a rule is about all sentences of a document together."""
        return any(hard_part(rule).of_document for rule in self.rules)

    def decode_document(
        self, lattices: Batch | Sequence[Lattice], given: Sequence[Given] | None = None
    ) -> DocumentDecoding:
        """Find the best labelling of a document: sequences that are decoded together.

        Rules made by `bridle.rules.in_document`, in sentences ``in the document: ...``, hold over the whole; all others
        hold in each sequence, as in `decode`.

        Parameters
        ----------
        lattices : Batch or sequence of Lattice
            Scores of the sentences, in order. No transition leads from one to the next.
        given : sequence of mappings, optional
            One per sentence, as in `decode`.

        Returns
        -------
        DocumentDecoding
            Labels per sentence, with one score, bound and status for the document. Limits are those of a sequence.

        Raises
        ------
        Infeasible, LimitReached
            As in `decode`.

        Examples
        --------
        >>> import bridle
        >>> rules = ["at most 1 token of B", "in the document: at most 2 tokens of B"]
        >>> sentences = [bridle.Lattice([[0, 1], [0, score]]) for score in (4, 3, 2)]
        >>> bridle.Decoder(["A", "B"], rules).decode_document(sentences).labels
        [['A', 'B'], ['A', 'B'], ['A', 'A']]
        """
        (decoding,) = self.decode_documents([lattices], None if given is None else [given], threads=1)
        return decoding

    def decode_documents(
        self,
        documents: Sequence[Batch | Sequence[Lattice]],
        given: Sequence[Sequence[Given] | None] | None = None,
        threads: int = 0,
        *,
        stop: _native.Stop | None = None,
    ) -> list[DocumentDecoding]:
        """Find the best labellings of many documents.

        Parameters
        ----------
        documents : sequence of Batch, or of sequences of Lattice
            One per document, as in `decode_document`.
        given : sequence of sequences of mappings, optional
            One per document.
        threads, stop : optional
            As in `decode_batch`.

        Returns
        -------
        list of DocumentDecoding
            In order, with a status for each.

        Raises
        ------
        Infeasible, LimitReached
            As in `decode_batch`; ``error.sequence`` is the number of the document.
        """
        if given is not None and len(given) != len(documents):
            got = f"{len(given)} lists"
            raise GivenError("given does not fit the documents", got=got, wanted=f"{len(documents)}, one per document")
        decoder: Any = self
        checked = [check_lattices(lattices) for lattices in documents]
        values = [None] * len(checked) if given is None else list(given)
        for lattices, its in zip(checked, values, strict=True):
            check_given(its, len(lattices))

        def solve(low: int, high: int, _stop: _native.Stop) -> list[DocumentDecoding]:
            parts = (decode_all(decoder, checked[d], [0, len(checked[d])], values[d]) for d in range(low, high))
            return list(chain.from_iterable(parts))

        parts = [(d, d + 1) for d in range(len(checked))] or [(0, 0)]
        decodings = list(chain.from_iterable(over_parts(solve, parts, thread_count(threads), stop)))
        for d, decoding in enumerate(decodings):
            if decoding.unanswered is not None and decoder.on_infeasible == "raise":
                error = decoding.unanswered.error
                error.sequence = d if len(decodings) > 1 else None
                raise error
        return decodings

    def k_best_document(
        self, lattices: Batch | Sequence[Lattice], k: int, given: Sequence[Given] | None = None
    ) -> list[DocumentDecoding]:
        """Find the k best distinct labellings of a document under the rules.

        Parameters
        ----------
        lattices : Batch or sequence of Lattice
            As in `decode_document`.
        k : int
            Number of labellings.
        given : sequence of mappings, optional
            One per sentence.

        Returns
        -------
        list of DocumentDecoding
            Best first; fewer if there are fewer. Two labellings are different if they differ in one sentence.

        Raises
        ------
        Infeasible, LimitReached
            As in `decode`, whatever `on_infeasible` says.

        Examples
        --------
        >>> import bridle
        >>> decoder = bridle.Decoder(["A", "B"], ["in the document: at most 1 token of B"])
        >>> sentences = [bridle.Lattice([[0, 2]]), bridle.Lattice([[0, 3]])]
        >>> [(d.labels, d.score) for d in decoder.k_best_document(sentences, 2)]
        [([['A'], ['B']], 3.0), ([['B'], ['A']], 2.0)]
        """
        batch, rules = check_lattices(lattices), self._document_rules
        check_given(given, len(batch))
        sentences = [batch[b] for b in range(len(batch))]
        sizes = [len(x) for x in sentences]
        joined = JoinedSentences.of(sizes, [{}] * len(sizes) if given is None else given)
        whole = join_lattices(sentences, joined, len(rules.decoder.labels))
        try:
            ranked = rules.joined.k_best(whole, k, joined.given)
        except Infeasible as error:
            error.clash = tuple(map(rules.original, error.clash))
            raise
        return [split_decoding(rules, decoding, joined) for decoding in ranked]

    @cached_property
    def _document_rules(self) -> DocumentRules:
        """The rules, compiled for documents."""
        return DocumentRules(self)  # type: ignore[arg-type]
