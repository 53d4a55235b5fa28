"""Small immutable automata: `DFA` says yes or no to a label sequence, `Machine` counts its violations of a rule."""

from bridle.automata.dfa import DFA
from bridle.automata.machine import Classes, Count, Machine, Walk
from bridle.automata.regex import check_regex, compile_regex, from_regex

__all__ = ["DFA", "Classes", "Count", "Machine", "Walk", "check_regex", "compile_regex", "from_regex"]
