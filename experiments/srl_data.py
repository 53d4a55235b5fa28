"""Propositions of the English Web Treebank as Roth & Yih (2005) label them: one unit for each chunk or single token.

    unit        a chunk, or a token outside all chunks; its head is its last word, in the verb's own unit the verb
    label       O or the core argument (A0 to A5) that holds the head
    candidates  Xue & Palmer (2004): the sisters of all nodes from the verb up to the root, and the children of those
                sisters that are prepositional phrases, as spans of units whose heads they hold
    frame       the core arguments that some roleset of the verb knows

    t token    u unit    v token of the verb

The data has gold parses and chunks made from them. A sentence has a column of arguments for each of its verbs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from bridle.data.source import Source

ROLES = ("A0", "A1", "A2", "A3", "A4", "A5")
OUTSIDE = "O"
_CLAUSES = frozenset({"S", "SBAR", "SINV", "SQ", "SBARQ"})
_BE = frozenset(
    (
        "be",
        "am",
        "is",
        "are",
        "was",
        "were",
        "been",
        "being",
        "'s",
        "'re",
        "'m",
        "m",
        "get",
        "gets",
        "got",
        "getting",
        "gotten",
    )
)
_HAVE = frozenset(("have", "has", "had", "having", "'ve", "'d", "ve"))
_FAR = 8  # units; longer chunk paths are all called the same
_PARSE = re.compile(r"\(([^()*\s]+)|(\*)|(\))")
_FIXED = 7  # columns before those of the targets

Span = tuple[int, int]  # [start, end)
Roles = list[tuple[str, int, int]]  # label, start, end


@dataclass(slots=True)
class Node:
    """A node of a parse."""

    label: str
    parent: Node | None
    start: int
    end: int = 0
    children: list[Node] = field(default_factory=list)

    def above(self) -> Iterator[Node]:
        """This node, its parent, and so on to the root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with its parse and its verbs."""

    words: list[str]
    pos: list[str]
    chunks: list[str]
    leaves: list[Node]  # one per word
    verbs: list[tuple[int, str, str, Roles]]  # position, lemma, roleset, arguments


@dataclass(frozen=True, slots=True)
class Proposition:
    """A verb with the units around it."""

    x: dict[str, list[str]]  # the columns of the feature set "srl"
    y: list[str]
    given: dict[str, Any]  # verb, candidates, frame
    units: list[Span]  # the words of each unit
    arguments: Roles  # the core arguments, over words
    last_word: str  # the label of the verb's unit if its last word were its head


# ---- reading --------------------------------------------------------------------------------------------------------


def sentences(path: Path) -> Iterator[Sentence]:
    """All sentences of a file with a varying number of columns, one for each verb."""
    source = Source(path)
    try:
        rows: list[list[str]] = []
        number = 0
        for number, line in source.lines():
            if line.startswith("# "):
                continue
            if line:
                rows.append(_row(source, number, line, rows))
            elif rows:
                yield _sentence(source, number - len(rows), rows)
                rows = []
        if rows:
            yield _sentence(source, number - len(rows) + 1, rows)
    finally:
        source.close()


def _row(source: Source, number: int, line: str, before: list[list[str]]) -> list[str]:
    row = line.split("\t")
    if len(row) < _FIXED or (before and len(row) != len(before[0])):
        wanted = f"{len(before[0])}, as on the line before" if before else f"at least {_FIXED}, cut by tabs"
        raise source.error(number, "a wrong number of columns", got=len(row), wanted=wanted)
    return row


def _sentence(source: Source, line: int, rows: list[list[str]]) -> Sentence:
    words, _, chunks, pos, bits, lemmas, rolesets, *targets = (list(column) for column in zip(*rows, strict=True))
    places = [t for t, lemma in enumerate(lemmas) if lemma != "-"]
    if len(places) != len(targets):
        raise source.error(
            line,
            "verbs and columns of arguments do not match",
            got=f"{len(places)} verbs, {len(targets)} columns",
            wanted="a column for each verb, in their order",
        )
    leaves = _tree(source, line, pos, bits)
    verbs = [
        (t, lemmas[t], rolesets[t], list(_arguments(source, line, column)))
        for t, column in zip(places, targets, strict=True)
    ]
    return Sentence(words, [row[1] for row in rows], chunks, leaves, verbs)


def _tree(source: Source, line: int, pos: list[str], bits: list[str]) -> list[Node]:
    """The leaves of a parse that is written as a bit for each word; they know their parents."""
    top = node = Node("", None, 0)
    leaves = []
    for t, (tag, bit) in enumerate(zip(pos, bits, strict=True)):
        for label, star, _ in _PARSE.findall(bit):
            if label or star:
                child = Node(label or tag, node, t, t + 1)
                node.children.append(child)
                if star:
                    leaves.append(child)
                else:
                    node = child
            else:
                node.end = t + 1
                if node.parent is None:
                    raise source.error(line + t, "a bracket too many", got=repr(bit), wanted="as many as were opened")
                node = node.parent
    if node is not top or len(leaves) != len(bits):
        raise source.error(line, "a broken parse", got=" ".join(bits)[:60], wanted="brackets that close, * per word")
    return leaves


def _arguments(source: Source, line: int, column: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """The arguments that brackets mark: `(A0*`, `*`, `*)`."""
    open_: list[tuple[str, int]] = []
    for t, text in enumerate(column):
        for label, _, close in _PARSE.findall(text):
            if label:
                open_.append((label, t))
            elif close:
                if not open_:
                    raise source.error(line + t, "an argument ends that did not begin", got=repr(text), wanted="(A0*")
                name, start = open_.pop()
                yield name, start, t + 1
    if open_:
        raise source.error(line, "an argument does not end", got=f"({open_[-1][0]}*", wanted="*)")


def frames(path: Path) -> dict[str, frozenset[str]]:
    """The core arguments of each verb: all that one of its rolesets knows, since the sense is not known."""
    result: dict[str, set[str]] = defaultdict(set)
    source = Source(path)
    try:
        for number, line in source.lines():
            row = line.split("\t")
            if len(row) < 6:
                raise source.error(number, "a wrong number of columns", got=len(row), wanted="8, cut by tabs")
            if number > 1:
                result[verb_of(row[0])] |= set(row[5].split()) & set(ROLES)
    finally:
        source.close()
    return {verb: frozenset(roles) for verb, roles in result.items()}


def verb_of(roleset: str) -> str:
    """The verb of a roleset: `act_out.03` belongs to act."""
    return roleset.rpartition(".")[0].split("_")[0]


# ---- propositions ---------------------------------------------------------------------------------------------------


def propositions(path: Path, known: Mapping[str, frozenset[str]]) -> Iterator[Proposition]:
    """All propositions of a file. known: the frames."""
    for sentence in sentences(path):
        clauses = [[node for node in leaf.above() if node.label in _CLAUSES][::-1] for leaf in sentence.leaves]
        units = _units(sentence.chunks)
        for verb in sentence.verbs:
            yield _proposition(sentence, units, clauses, verb, known)


def _units(chunks: Sequence[str]) -> list[Span]:
    starts = [t for t, tag in enumerate(chunks) if not tag.startswith("I-") or t == 0 or chunks[t - 1][2:] != tag[2:]]
    return list(zip(starts, [*starts[1:], len(chunks)], strict=True))


def _proposition(
    sentence: Sentence,
    units: list[Span],
    clauses: list[list[Node]],
    verb: tuple[int, str, str, Roles],
    known: Mapping[str, frozenset[str]],
) -> Proposition:
    v, lemma, roleset, roles = verb
    core = [role for role in roles if role[0] in ROLES]
    label = [OUTSIDE] * len(sentence.words)
    for name, start, end in core:
        label[start:end] = [name] * (end - start)
    here = next(u for u, (start, end) in enumerate(units) if start <= v < end)
    heads = [v if u == here else end - 1 for u, (_, end) in enumerate(units)]
    chunk = [sentence.chunks[start][2:] or OUTSIDE for start, _ in units]
    everywhere = len(units)
    x = {
        "word": [sentence.words[t] for t in heads],
        "pos": [sentence.pos[t] for t in heads],
        "chunk": chunk,
        "verb": [lemma] * everywhere,
        "verb_pos": [sentence.pos[v]] * everywhere,
        "voice": [_voice(sentence, v)] * everywhere,
        "position": ["before" if u < here else "verb" if u == here else "after" for u in range(everywhere)],
        "path": [_path(chunk, here, u) for u in range(everywhere)],
        "clause": [f"{_clause_path(clauses[v], clauses[t])} {c}" for t, c in zip(heads, chunk, strict=True)],
    }
    given = {
        "verb": here,
        "candidates": candidates(sentence.leaves[v], heads),
        "frame": [OUTSIDE, *sorted(known.get(verb_of(roleset), ROLES))],
    }
    return Proposition(x, [label[t] for t in heads], given, units, core, label[units[here][1] - 1])


def _voice(sentence: Sentence, v: int) -> str:
    """Passive: a participle after a form of be or get, or after none of have."""
    if sentence.pos[v] != "VBN":
        return "active"
    for t in range(v - 1, max(v - 6, -1), -1):
        word = sentence.words[t].lower()
        if word in _BE or word in _HAVE:
            return "passive" if word in _BE else "active"
    return "passive"


def _path(chunk: Sequence[str], here: int, u: int) -> str:
    """The chunks from the verb to a unit, a run of the same kind once."""
    if abs(u - here) > _FAR:
        return "far"
    between = chunk[here : u + 1] if u >= here else chunk[u : here + 1][::-1]
    return ">".join(name for name, _ in groupby(between))


def _clause_path(verb: Sequence[Node], head: Sequence[Node]) -> str:
    """Out of the clauses of the verb and into those of the head."""
    same = 0
    while same < min(len(verb), len(head)) and verb[same] is head[same]:
        same += 1
    up, down = ([node.label for node in side[same:]] for side in (verb, head))
    return f"{'^'.join(up[::-1])}|{'v'.join(down)}"


def candidates(verb: Node, heads: Sequence[int]) -> list[Span]:
    """Xue & Palmer's candidates as spans of units, each once; single units say nothing, but are kept."""
    result: dict[Span, None] = {}
    for node in verb.above():
        if node.parent is None:
            continue
        sisters = node.parent.children
        joined = any(sister.label in ("CC", "CONJP") for sister in sisters)
        for sister in sisters:
            if sister is node or (joined and sister.label[:2] == node.label[:2]):
                continue  # what is coordinated with the verb is no argument of it
            for item in (sister, *(sister.children if sister.label == "PP" else ())):
                held = [u for u, t in enumerate(heads) if item.start <= t < item.end]
                if held:
                    result[held[0], held[-1] + 1] = None
    return sorted(result)


@dataclass(frozen=True, slots=True)
class Part:
    """Propositions as models take them."""

    X: list[dict[str, list[str]]]
    y: list[list[str]]
    given: list[dict[str, Any]]

    @classmethod
    def of(cls, some: Sequence[Proposition]) -> Part:
        """Collect propositions."""
        return cls([item.x for item in some], [item.y for item in some], [item.given for item in some])

    @property
    def roles(self) -> list[str]:
        """The core arguments that occur."""
        return sorted({label for y in self.y for label in y} - {OUTSIDE})

    def knowing(self, roles: Sequence[str]) -> Part:
        """Return the part for a model that knows only these roles: frames may not name others."""
        known = {OUTSIDE, *roles}
        given = [{**its, "frame": [name for name in its["frame"] if name in known]} for its in self.given]
        return replace(self, given=given)

    def every(self, step: int) -> Part:
        """Every so many of them."""
        return Part(self.X[::step], self.y[::step], self.given[::step])


def expressible(some: Sequence[Proposition]) -> float:
    """The share of the core arguments that begin and end where units do."""
    starts_ends = [({a for a, _ in item.units}, {b for _, b in item.units}) for item in some]
    fits = [
        start in starts and end in ends
        for item, (starts, ends) in zip(some, starts_ends, strict=True)
        for _, start, end in item.arguments
    ]
    return sum(fits) / max(len(fits), 1)
