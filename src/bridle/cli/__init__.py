"""The command line: parse, call, print. What it does is written elsewhere. One file per command."""

from bridle.cli import decoding, demo, evaluating, learning, reproducing, rules, rules_test, tagging, training
from bridle.cli.base import app

__all__ = [
    "app", "decoding", "demo", "evaluating", "learning", "reproducing", "rules", "rules_test", "tagging", "training",
]  # fmt: skip
