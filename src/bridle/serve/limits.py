"""Limits of requests. A request over a limit gets an HTTP status and an error that names the limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from math import isqrt
from typing import Any

from bridle.labels import MOST_SQUARE
from bridle.serve.errors import HttpError, too_large

MAX_RULE_CHARACTERS = 5_000  # characters
BODIES_AT_ONCE = 32  # requests of the largest size that are held at the same time; more, if they are smaller
TIME_SHARE = 0.2  # share of the time of a request that a single sequence may take
TRIAL_STATES = 10_000  # of the search for a labelling that is one of many: few sequences need more
SQUARE_BYTES = 32  # of a pair of labels, in all tables of labels x labels together


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of requests.

    Parameters
    ----------
    body_bytes : int
        Size of a request.
    sequences : int
        Sequences of a request.
    tokens : int
        Tokens of all sequences of a request together.
    sequence_tokens : int
        Tokens of one sequence.
    explain_tokens : int
        Tokens of a sequence in /explain.
    token_characters : int
        Characters of one token.
    rules : int
        Rules in a request.
    rule_characters : int
        Characters of all rules of a request together.
    rule_parts : int
        Simple rules that one rule combines by ``and``, ``or``, ``not`` and ``implies``.
    k : int
        Number of best labellings per sequence.
    seconds : float
        Seconds per request, from its first byte to its answer.
    waiting : int
        Requests that may wait in a queue; further ones get the status 429.
    max_memory : int
        Bytes of working memory for each sequence, as in `Decoder`.
    compiled_bytes : int
        Memory of compiled rules that are kept, as the kernels measure it; the least recently used are removed first.
    data_bytes : int
        Memory of all uploaded data; the least recently used is removed first.
    """

    body_bytes: int = 4_000_000
    sequences: int = 10_000
    tokens: int = 200_000
    sequence_tokens: int = 20_000
    explain_tokens: int = 2_000
    token_characters: int = 1_000
    rules: int = 200
    rule_characters: int = 100_000
    rule_parts: int = 16
    k: int = 50
    seconds: float = 10.0
    waiting: int = 256
    max_memory: int = 200_000_000
    compiled_bytes: int = 300_000_000
    data_bytes: int = 100_000_000

    def to_dict(self) -> dict[str, float]:
        """Return the limits by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def all_bodies(self) -> int:
        """Bytes of the bodies of all requests that are being received, are waiting, or are being answered."""
        return BODIES_AT_ONCE * self.body_bytes

    @property
    def of_sequence(self) -> dict[str, Any]:
        """Options of `Decoder`."""
        return {"time_limit": TIME_SHARE * self.seconds, "max_memory": self.max_memory}

    @property
    def of_trial(self) -> dict[str, Any]:
        """Options of `Decoder` for sequences that are decoded many times; the results do not depend on the clock."""
        return {**self.of_sequence, "max_states": TRIAL_STATES}

    @property
    def most_square(self) -> int:
        """Labels of which a request may have tables of labels x labels made."""
        return min(MOST_SQUARE, isqrt(self.max_memory // SQUARE_BYTES))

    def check_sequences(self, sequences: Sequence[Sequence[str]]) -> int:
        """Raise `HttpError` if sequences are over a limit; return the number of their tokens."""
        if len(sequences) > self.sequences:
            raise too_large("sequences", "there are too many sequences", len(sequences), self.sequences)
        total = 0
        for b, tokens in enumerate(sequences):
            total += len(tokens)
            if len(tokens) > self.sequence_tokens:
                what = "a sequence has too many tokens"
                raise too_large("sequence_tokens", what, len(tokens), self.sequence_tokens, sequence=b)
            if (longest := max(map(len, tokens), default=0)) > self.token_characters:
                what = "a token has too many characters"
                raise too_large("token_characters", what, longest, self.token_characters, sequence=b)
        if total > self.tokens:
            raise too_large("tokens", "the request has too many tokens", total, self.tokens)
        return total

    def check_explained(self, tokens: Sequence[str]) -> None:
        """Raise `HttpError` if a sequence is over a limit, or too long to be explained."""
        self.check_sequences([tokens])
        if len(tokens) > self.explain_tokens:
            what = "the sequence is too long to be explained"
            raise too_large("explain_tokens", what, len(tokens), self.explain_tokens)

    def check_rules(self, lines: Iterable[str]) -> None:
        """Raise `HttpError` if there are too many rules, or one is too long; comments and empty lines do not count."""
        kept = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if len(kept) > self.rules:
            raise too_large("rules", "the request has too many rules", len(kept), self.rules)
        if (longest := max(map(len, kept), default=0)) > MAX_RULE_CHARACTERS:  # answers repeat violated rules
            raise too_large("rule_characters", "a rule is too long", longest, MAX_RULE_CHARACTERS)

    def check_rule_characters(self, characters: int) -> None:
        """Raise `HttpError` if the rules are too long together."""
        if characters > self.rule_characters:
            raise too_large("rule_characters", "the rules are too long", characters, self.rule_characters)

    def check_k(self, k: int, tokens: int = 0) -> None:
        """Raise `HttpError` if the k best labellings of this number of tokens would be too many labels."""
        if k > self.k:
            raise HttpError(422, "k", "k is too large", got=k, wanted=f"at most {self.k:,}")
        if k > 1 and k * tokens > 5 * self.tokens:
            raise too_large("k", "the k best labellings are too many labels", k * tokens, 5 * self.tokens)
