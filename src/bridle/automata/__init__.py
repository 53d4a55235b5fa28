"""Small immutable automata: `DFA` says yes or no to a label sequence, `CountingAutomaton` counts violations."""

from bridle.automata.counting import Classes, Count, CountingAutomaton, LazyAutomaton, by_sets, joint_classes
from bridle.automata.dfa import DFA
from bridle.automata.regex import check_regex, compile_regex, from_regex

__all__ = [
    "DFA",
    "Classes",
    "Count",
    "CountingAutomaton",
    "LazyAutomaton",
    "by_sets",
    "check_regex",
    "compile_regex",
    "from_regex",
    "joint_classes",
]
