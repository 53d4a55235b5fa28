"""Boolean rules: and, or, not, implies, iff over any hard rules; and label expressions. Broken means one violation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from bridle.automata import DFA, Classes, Walk, check_regex, compile_regex
from bridle.errors import RuleError
from bridle.labels import Labels
from bridle.rules.base import Names, Place, Rule, Scene, Sets
from bridle.rules.classes import joint

_BROKEN = "broken"  # the state of a part after its first violation


@dataclass(frozen=True)
class _Formula(Rule):
    """A truth function of other rules."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Rule, ...]: ...

    @abstractmethod
    def truth(self, held: Sequence[bool]) -> bool: ...

    def breaks(self, scene: Scene) -> int:
        return int(not self.truth([part.breaks(scene) == 0 for part in self.parts]))

    def names(self) -> tuple[Names, ...]:
        return tuple(name for part in self.parts for name in part.names())

    def places(self) -> tuple[Place, ...]:
        return tuple(place for part in self.parts for place in part.places())

    def walks(self, sets: tuple[Sets, ...], labels: Labels) -> list[Walk]:
        """The walks of all parts side by side; the truth function speaks at the end."""
        walks: list[tuple[Walk, int]] = []  # with the bit at which the marks of its part begin
        owner: list[int] = []
        names_before = bits_before = 0
        for k, part in enumerate(self.parts):
            n_names = len(part.names())
            made = part.walks(sets[names_before : names_before + n_names], labels)
            walks += [(walk, bits_before) for walk in made]
            owner += [k] * len(made)
            names_before += n_names
            bits_before += len(part.places())

        def read(states: Any, y: int, mark: int) -> tuple[Any, int]:
            after = []
            for (walk, shift), state in zip(walks, states, strict=True):
                if state is not _BROKEN:
                    state, hits = walk.step(state, y, mark >> shift)
                    state = _BROKEN if hits else state
                after.append(state)
            return tuple(after), 0

        def final(states: Any) -> int:
            held = [True] * len(self.parts)
            for k, (walk, _), state in zip(owner, walks, states, strict=True):
                held[k] = held[k] and state is not _BROKEN and walk.final(state) == 0
            return int(not self.truth(held))

        return [Walk(tuple(walk.start for walk, _ in walks), read, final, joint([walk for walk, _ in walks]))]


@dataclass(frozen=True)
class _Pair(_Formula):
    word: ClassVar[str]
    left: Rule
    right: Rule

    @property
    def parts(self) -> tuple[Rule, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class And(_Pair):
    """Both hold."""

    word = "and"

    def truth(self, held: Sequence[bool]) -> bool:
        return held[0] and held[1]

    def conjuncts(self) -> tuple[Rule, ...]:
        return self.left.conjuncts() + self.right.conjuncts()


@dataclass(frozen=True)
class Or(_Pair):
    """One holds, or both do."""

    word = "or"

    def truth(self, held: Sequence[bool]) -> bool:
        return held[0] or held[1]


@dataclass(frozen=True)
class Implies(_Pair):
    """If the first holds, so does the second."""

    word = "implies"

    def truth(self, held: Sequence[bool]) -> bool:
        return held[1] or not held[0]


@dataclass(frozen=True)
class Iff(_Pair):
    """Both hold or neither does."""

    word = "iff"

    def truth(self, held: Sequence[bool]) -> bool:
        return held[0] == held[1]


@dataclass(frozen=True)
class Not(_Formula):
    """The rule does not hold."""

    rule: Rule

    @property
    def parts(self) -> tuple[Rule, ...]:
        return (self.rule,)

    def truth(self, held: Sequence[bool]) -> bool:
        return not held[0]


@lru_cache(maxsize=256)
def _compiled(pattern: str, labels: Labels) -> tuple[DFA, Classes]:
    """The automaton of an expression, over classes of labels, and the class of each label."""
    return compile_regex(pattern, labels.matching, len(labels))


@dataclass(frozen=True)
class Matches(Rule):
    """The whole label sequence matches an expression such as "O* A0+ (O|A1)*"."""

    text = ("matches {pattern:quoted}",)
    pattern: str

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise RuleError("a label expression is not text", got=repr(self.pattern), wanted='such as "O* A0+"')
        check_regex(self.pattern)  # now, while the line of the file is known; the names wait for the label set

    def breaks(self, scene: Scene) -> int:
        dfa, class_of = _compiled(self.pattern, scene.labels)
        return int(not dfa.accepts(class_of[y] for y in scene.ids))

    def walks(self, sets: tuple[Sets, ...], labels: Labels) -> list[Walk]:
        dfa, class_of = _compiled(self.pattern, labels)
        step, accepting = dfa.step.tolist(), dfa.accepting.tolist()
        return [Walk(0, lambda s, y, _mark: (step[s][class_of[y]], 0), lambda s: int(not accepting[s]), class_of)]
