"""Limits on what a request may ask for. Each one that is exceeded is an HTTP status and an error that names it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from bridle.serve.problems import HttpError, too_large

LONGEST_RULE = 5_000  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a request may ask for.

    Parameters
    ----------
    body_bytes : int
        Bytes of a request.
    sequences : int
        Sequences of a request.
    tokens : int
        Tokens of all sequences of a request together.
    sequence_tokens : int
        Tokens of one sequence.
    explain_tokens : int
        Tokens of a sequence that is to be explained.
    token_characters : int
        Characters of one token.
    rules : int
        Rules that a request brings along.
    rule_characters : int
        Characters of these rules.
    rule_parts : int
        Simple rules that one rule may be made of, by ``and``, ``or``, ``not`` and ``implies``.
    k : int
        How many of the best labellings a request may ask for.
    seconds : float
        Time for a request, from its first byte to its answer.
    waiting : int
        Requests that wait to be decoded; further ones are turned away.
    max_memory : int
        Bytes of working memory for each sequence, as in `Decoder`.
    data_bytes : int
        Bytes that uploaded data may take in all; the least recently used is forgotten first.
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
    data_bytes: int = 100_000_000

    def to_dict(self) -> dict[str, float]:
        """The limits by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def check_sequences(self, sequences: Sequence[Sequence[str]]) -> int:
        """Check sizes of tokens, sequences and the request; return the number of tokens."""
        if len(sequences) > self.sequences:
            raise too_large("sequences", "there are too many sequences", len(sequences), self.sequences)
        total = 0
        for b, tokens in enumerate(sequences):
            total += len(tokens)
            if len(tokens) > self.sequence_tokens:
                what = "a sequence has too many tokens"
                raise too_large("sequence_tokens", what, len(tokens), self.sequence_tokens, sequence=b)
            if len(max(tokens, key=len, default="")) > self.token_characters:
                longest = len(max(tokens, key=len))
                what = "a token has too many characters"
                raise too_large("token_characters", what, longest, self.token_characters, sequence=b)
        if total > self.tokens:
            raise too_large("tokens", "the request has too many tokens", total, self.tokens)
        return total

    def check_rules(self, lines: Iterable[str]) -> None:
        """Check how many rules there are, and how long they are; lines without a rule do not count as one."""
        kept = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if len(kept) > self.rules:
            raise too_large("rules", "the request has too many rules", len(kept), self.rules)
        if (longest := max(map(len, kept), default=0)) > LONGEST_RULE:  # answers repeat the rules that are broken
            raise too_large("rule_characters", "a rule is too long", longest, LONGEST_RULE)

    def check_rule_characters(self, characters: int) -> None:
        """Check the length of all rules together."""
        if characters > self.rule_characters:
            raise too_large("rule_characters", "the rules are too long", characters, self.rule_characters)

    def check_k(self, k: int, tokens: int = 0) -> None:
        """Check how many labellings are asked for, of sequences with so many tokens."""
        if k > self.k:
            raise HttpError(422, "k", "k is too large", got=k, wanted=f"at most {self.k:,}")
        if k > 1 and k * tokens > 5 * self.tokens:
            raise too_large("k", "the k best labellings are too many labels", k * tokens, 5 * self.tokens)
