"""Rules that users write as automata: an automaton of their own, also in the text format of OpenFst.

0 1 AUTHOR       from state 0 to state 1 with an AUTHOR; the first line begins in the start state
1 1 ?            ? is any label that no other arc of the state names
1 2 TITLE 3      a weight: how many violations the arc is; without one, none
2                a final state; a weight behind it counts violations, too
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bridle.automata import LazyAutomaton
from bridle.errors import FileError, RuleError, RuleSyntaxError, shown
from bridle.labels import Labels
from bridle.rules.base import Rule, Sets
from bridle.rules.references import Names, RuleContext, union

REST = "?"
LARGEST = 1 << 20  # characters
_DEAD = -1  # the state after a label for which there is no arc
_NUMBER = re.compile(r"\d{1,9}")
_EPSILONS = {"<eps>", "<epsilon>"}
_WANTED = "a deterministic automaton"


class Arcs(NamedTuple):
    """An automaton as it is written."""

    start: int
    arcs: dict[int, dict[str, tuple[int, int]]]  # state -> label -> next state, weight
    final: dict[int, int]  # final state -> weight

    @property
    def names(self) -> tuple[str, ...]:
        """The labels, in the order of their first arcs."""
        return tuple(dict.fromkeys(name for arcs in self.arcs.values() for name in arcs if name != REST))

    def __str__(self) -> str:
        rows = [
            [state, to, name, *([weight] if weight else [])]
            for state, arcs in self.arcs.items()
            for name, (to, weight) in arcs.items()
        ]
        rows += [[state, *([weight] if weight else [])] for state, weight in self.final.items()]
        lines = [" ".join(map(str, row)) for row in rows]
        return "\n".join(lines) if any(";" in name for name in self.names) else "; ".join(lines)


def _lines(text: str) -> list[str]:
    return re.split(r"[\r\n]+", text) if re.search(r"[\r\n]", text.strip()) else text.split(";")


def read_arcs(text: str, called: str = "the automaton") -> Arcs:
    """Read an automaton from lines, or from one line with semicolons."""
    if len(text) > LARGEST:
        wanted = f"at most {LARGEST:,} characters"
        raise RuleError(f"{called} is too large", got=f"{len(text):,} characters", wanted=wanted)
    start: int | None = None
    arcs: dict[int, dict[str, tuple[int, int]]] = {}
    final: dict[int, int] = {}
    line = place = ""

    def fail(what: str, wanted: str, cause: str | None = None) -> RuleSyntaxError:
        return RuleSyntaxError(f"{place}: {what}", got=shown(line.strip()), wanted=wanted, cause=cause)

    for number, line in enumerate(_lines(text), start=1):
        if not (words := line.split()):
            continue
        place = f"line {number} of {called}"
        label, numbers = (words[2], [*words[:2], *words[3:]]) if len(words) > 2 else (None, words)
        if len(words) > 4:
            raise fail("too many words", "from to label [weight]", "A transducer? Print it as an acceptor.")
        if label in _EPSILONS:
            raise fail("an arc without a label", _WANTED, "Remove epsilons and determinise it first.")
        if not all(map(_NUMBER.fullmatch, numbers)):
            cause = "Weights count violations: round them, and put what one of them costs into the penalty."
            wanted = "from to label [weight], or state [weight]; states and weights are integers from 0 on"
            raise fail("neither an arc nor a final state", wanted, cause if len(words) in (2, 4) else None)
        state, weight = int(words[0]), int(numbers[-1]) if len(words) in (2, 4) else 0
        start = state if start is None else start
        if label is None:
            if state in final:
                raise fail(f"state {state} is final twice", "each final state once")
            final[state] = weight
        elif label in arcs.setdefault(state, {}):
            raise fail(f"a second arc from state {state} with {label}", _WANTED, "Determinise it first.")
        else:
            arcs[state][label] = (int(words[1]), weight)
    if start is None or not final:
        raise RuleSyntaxError(
            f"{called} has no final state, so no labelling could obey it",
            got=shown(text.strip()),
            wanted='lines such as "0 1 A" and "1", or the same with semicolons between them',
        )
    return Arcs(start, arcs, final)


def read_automaton(path: Path, name: str) -> str:
    """Read the text of an automaton from a file, under the name that the caller has for it."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST + 1).decode("utf-8-sig")
    except (OSError, ValueError) as error:  # a ValueError: not UTF-8, or a path with a null in it
        got = getattr(error, "strerror", None) or str(error)
        cause = None if str(path) == name else f"Looked for {str(path)!r}."
        raise FileError(f"cannot read the automaton {name!r}", got=got, wanted="a text file", cause=cause) from None
    return str(read_arcs(text, f"the automaton {name!r}"))


_parsed = lru_cache(maxsize=256)(read_arcs)


@dataclass(frozen=True)
class Automaton(Rule):
    """An automaton of the user's own accepts the label sequence; weights of its arcs count violations."""

    text = ("automaton {arcs:quoted}", "automaton from {arcs:automaton}")
    arcs: str

    def __post_init__(self) -> None:
        if not isinstance(self.arcs, str):
            wanted = 'lines such as "0 1 A; 1", or a Path'
            raise RuleError("an automaton must be a text or a file", got=shown(self.arcs), wanted=wanted)
        object.__setattr__(self, "arcs", str(read_arcs(self.arcs)))

    def names(self) -> tuple[Names, ...]:
        return tuple(Names((name,)) for name in _parsed(self.arcs).names)

    def count_violations(self, context: RuleContext) -> int:
        step = self._stepper([union(context.sets(names)) for names in self.names()], context.labels)
        state, count = _parsed(self.arcs).start, 0
        for y in context.ids:
            state, more = step(state, y, 0)
            count += more
        return count + self._final(state)

    def automata(self, sets: tuple[Sets, ...], labels: Labels) -> list[LazyAutomaton]:
        members = [union(some) for some in sets]
        inside = np.zeros((len(members) + 1, len(labels)), dtype=bool)
        for k, ids in enumerate(members):
            inside[k, list(ids)] = True
        classes = np.unique(inside, axis=1, return_inverse=True)[1].reshape(-1).astype(np.uint16)
        return [LazyAutomaton(_parsed(self.arcs).start, self._stepper(members, labels), self._final, classes)]

    def _stepper(self, members: list[frozenset[int]], labels: Labels) -> Any:
        """Return the step function; members: the labels of each name."""
        arcs, names = _parsed(self.arcs).arcs, _parsed(self.arcs).names

        def step(state: int, y: int, _mark: int) -> tuple[int, int]:
            if state == _DEAD:
                return _DEAD, 0
            here = arcs.get(state, {})
            fitting = [name for name, ids in zip(names, members, strict=True) if y in ids and name in here]
            if len({here[name] for name in fitting}) > 1:
                raise RuleError(
                    f"the automaton is not deterministic: two arcs from state {state} read {labels.names[y]}",
                    got=" and ".join(fitting),
                    wanted="arcs with different labels",
                    cause="The name of a segment type stands for all of its labels.",
                )
            return here.get(fitting[0] if fitting else REST, (_DEAD, 1))

        return step

    def _final(self, state: Any) -> int:
        return 0 if state == _DEAD else _parsed(self.arcs).final.get(state, 1)


# ---- public functions -----------------------------------------------------------------------------------------------


def automaton(arcs: str | Path) -> Rule:
    """Require that an automaton of your own accepts the label sequence.

    Parameters
    ----------
    arcs : str or Path
        The automaton, or a file with it, in the text format of OpenFst's acceptors: a line ``from to label [weight]``
        for each arc, and a line ``state [weight]`` for each final state; states are numbers, and the first line begins
        in the start state. In a string, you can write semicolons instead of line ends. A label is a name as in other
        rules, without blanks; ``?`` is any label that no other arc of the state names. The automaton must be
        deterministic. A weight is an integer from 0 on: how many violations the arc, or ending there, is.

    Returns
    -------
    Rule
        The weights on the way are violations. If there is no arc for a label, or the sequence ends in a state that is
        not final, that is one more, and nothing behind it counts.

    Raises
    ------
    RuleError
        If the automaton is invalid; its subclass RuleSyntaxError names the line.
    FileError
        If the file cannot be read.

    Examples
    --------
    No B once there was an A; each O behind an A is a violation, which a soft rule can charge:

    >>> from bridle import Labels, rules as r
    >>> labels = Labels(["O", "A", "B"])
    >>> rule = r.automaton("0 0 ?; 0 1 A; 1 1 A; 1 1 O 1; 0; 1")
    >>> [rule.violations(y.split(), labels) for y in ("O B A A", "A B O", "A O O")]
    [0, 1, 2]
    """
    return Automaton(read_automaton(arcs, str(arcs)) if isinstance(arcs, Path) else arcs)
