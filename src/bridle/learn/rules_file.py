"""`.rules` files of learned and of tuned rules, with their evidence, for people to read and edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bridle.atomic import replacing
from bridle.errors import FileError
from bridle.extras import versions
from bridle.learn.evidence import Learned, penalty_of, priced
from bridle.learn.fitted import FittedRules
from bridle.learn.relational import RelationalRules
from bridle.learn.tuned import TunedRule, TunedRules
from bridle.rules.loading import Line, Loaded
from bridle.rules.text import included_by

_TUNED_HEADS = ("# Tuned by bridle ", "# priced for model ")


@dataclass(frozen=True)
class LearnedFile:
    """Learned rules, and how many candidates were dropped for which reasons."""

    learned: list[Learned]
    dropped: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # how penalties were learned
    interrupted: bool = False
    fitted: FittedRules | None = None  # if they were priced against a model

    def softened(self, soft: Sequence[Learned], reason: str) -> LearnedFile:
        """Return the rules with these penalties, rounded to be readable, without rules whose penalty is 0."""
        rounded = [replace(rule, rule=priced(rule.rule, float(f"{penalty_of(rule.rule):.4g}"))) for rule in soft]
        kept = [rule for rule in rounded if penalty_of(rule.rule) > 0]
        less = {reason: len(rounded) - len(kept)} if len(kept) < len(rounded) else {}
        return replace(self, learned=kept, dropped={**self.dropped, **less})

    def lines(self, data: list[str], count: int, miner: RelationalRules, how: str) -> Iterator[str]:
        """Yield the lines of the file: settings, then the rules by kind, the kind with the most useful rule first."""
        names = ("min_support", "min_confidence", "significance", "select", "max_rules", "seed")
        settings = ", ".join(f"{name} {getattr(miner, name)}" for name in names if getattr(miner, name) is not None)
        yield f"# Rules learned by bridle {versions()['bridle']} from {printable(', '.join(data))}"
        yield f"# {count:,} sequences, {len(miner.labels_)} labels, scheme {miner.labels_.scheme or 'none'}; {how}"
        yield f"# kinds {', '.join(miner.kinds)}"
        yield f"# {settings}"
        yield from (f"# {line}" for line in (self.fitted.lines() if self.fitted is not None else ()))
        if not self.learned and self.fitted is None:
            yield "# no rule was found"
        elif not self.learned:
            yield "# no rules: none of the candidates makes the model better"
        evidence = {} if self.fitted is None else {id(rule.learned): rule for rule in self.fitted.priced}
        for kind in dict.fromkeys(rule.kind for rule in self.learned):
            rules = [rule for rule in self.learned if rule.kind == kind]
            yield from ("", f"# ---- {kind}: {len(rules)}")
            yield from (str(evidence.get(id(rule), rule)) for rule in rules)

    def summary(self, count: int, out: str) -> Iterator[str]:
        """Yield a summary for people."""
        place = "standard output" if out == "-" else out
        by_kind = ", ".join(f"{n} {kind}" for kind, n in Counter(rule.kind for rule in self.learned).most_common())
        if self.learned:
            yield f"bridle: {count:,} sequences; {len(self.learned)} rules ({by_kind}); written to {place}"
        else:
            no_candidates = self.fitted is None or not self.fitted.candidates
            result = "no rule was found" if no_candidates else "none of the candidates makes the model better"
            yield f"bridle: {result} in {count:,} sequences; {place} contains only this note"
        yield from (f"  {line}" for line in self.notes)
        yield from (f"  {n:,} dropped: {reason}" for reason, n in self.dropped.items() if n)

    def to_dict(self, count: int, out: str) -> dict[str, Any]:
        """Return all figures, for JSON."""
        rules = [
            {
                "rule": str(rule.hard().rule),
                "kind": rule.kind,
                "held": rule.held,
                "of": rule.of,
                "support": rule.support,
                "penalty": None if rule.hard() is rule else penalty_of(rule.rule),
            }
            for rule in self.learned
        ]
        dropped = {reason: n for reason, n in self.dropped.items() if n}
        fit = {} if self.fitted is None else {"fit": self.fitted.to_dict()}
        return {"file": out, "sequences": count, "rules": rules, "dropped": dropped, **fit}


_Rows = dict[tuple[str | None, int], tuple[Line, TunedRule | None]]  # None: the rule was left out


def tuned_lines(loaded: Loaded, read: list[Line], tuned: TunedRules, data: list[str]) -> Iterator[str]:
    """Yield the lines of the rules files, one after the other, with each rule replaced by the tuned one."""
    yield f"# Tuned by bridle {versions()['bridle']} on {printable(', '.join(data))}: {tuned.verdict}"
    if tuned.best == "tuned" or (tuned.best == "written" and loaded.priced_for):
        where = f"{tuned.sequences:,} sequences in {tuned.folds} folds"
        gain = f"all right, against no rules: {tuned.gains[tuned.best]}"
        yield f"# priced for model {tuned.fingerprint} on {where}; {gain}"
    rows: _Rows = {(line.file, line.number): (line, None) for line in loaded.lines}
    rows |= {(line.file, line.number): (line, rule) for line, rule in zip(read, tuned.tuned, strict=True)}
    included = set(loaded.includes.values())
    files = [file for file in loaded.texts if file not in included]
    for file in files:
        if len(files) > 1:
            yield f"# ---- {printable(str(file))}"
        yield from _tuned_file(file, loaded, rows, tuned)


def _tuned_file(file: str | None, loaded: Loaded, rows: _Rows, tuned: TunedRules) -> Iterator[str]:
    """Yield the lines of a file, with included files inserted."""
    for number, text in enumerate("\n".join(loaded.texts[file]).rstrip("\n").split("\n"), start=1):
        line, rule = rows.get((file, number), (None, None))
        if (other := loaded.includes.get((file, number))) is not None:
            yield f"# ---- {printable(text.strip())}"
            yield from _tuned_file(other, loaded, rows, tuned)
            yield f"# ---- end of {printable(other)}"
        elif included_by(text) is not None:
            yield f"# {printable(text.strip())}: it is above"
        elif line is not None and rule is None:
            yield f"# left out: {text.strip()}"
        elif line is None or rule is None or tuned.best == "written":
            if not text.startswith(_TUNED_HEADS):  # of a tuning before this one
                yield text
        else:
            comment = f"  # {line.comment}" if line.comment else ""
            is_off = tuned.best != "tuned" or rule.rule is None
            yield f"# off: {rule.written}{comment}" if is_off else f"{rule.rule}{comment}"


def printable(text: str) -> str:
    """Replace characters of a file name that cannot be printed on one line."""
    return "".join(c if c.isprintable() else "?" for c in text)


def back_up(out: str, lines: list[str]) -> bool:
    """Keep an existing file whose contents are not these lines as FILE.bak, because people edit rules files."""
    try:
        before = Path(out).read_bytes() if Path(out).is_file() else b""
        if not before.strip() or before.split(b"\n") == [*(line.encode() for line in lines), b""]:
            return False
        with replacing(f"{out}.bak") as file:
            file.write(before)
    except (OSError, ValueError, FileError) as error:
        got = error.got if isinstance(error, FileError) else getattr(error, "strerror", None) or str(error)
        problem, wanted = f"cannot keep this file as {out}.bak", "a folder that is writable, and space on the disk"
        raise FileError(problem, got=got, wanted=wanted, where=out) from None
    return True
