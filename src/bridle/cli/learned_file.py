"""What `bridle learn` writes: a .rules file that people can read and edit, a summary, and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import bridle
from bridle.atomic import replacing
from bridle.cli.base import warn
from bridle.errors import FileError
from bridle.learn import FittedRules, Learned
from bridle.learn.evidence import penalty_of, priced
from bridle.learn.relational import RelationalRules


@dataclass(frozen=True)
class Found:
    """Learned rules, and how many were left out for which reasons."""

    learned: list[Learned]
    dropped: dict[str, int] = field(default_factory=dict)
    told: tuple[str, ...] = ()  # how penalties were learned
    interrupted: bool = False
    fitted: FittedRules | None = None  # if they were priced against a model

    def softened(self, priced_ones: Sequence[Learned], reason: str) -> Found:
        """The same with these penalties, rounded to be readable, and without rules whose penalty is 0."""
        short = [replace(one, rule=priced(one.rule, float(f"{penalty_of(one.rule):.4g}"))) for one in priced_ones]
        kept = [one for one in short if penalty_of(one.rule) > 0]
        less = {reason: len(short) - len(kept)} if len(kept) < len(short) else {}
        return replace(self, learned=kept, dropped={**self.dropped, **less})

    def lines(self, data: list[str], count: int, miner: RelationalRules, how: str) -> list[str]:
        """The whole file."""
        return [*_head(data, count, miner, how, self.fitted), *self._body()]

    def _body(self) -> Iterator[str]:
        """The rules by kind; the kind with the most useful rule first."""
        if not self.learned:
            yield (
                "# no rule was found"
                if self.fitted is None
                else "# no rules: none of the candidates makes the model better"
            )
        notes = {} if self.fitted is None else {id(one.learned): one for one in self.fitted.priced}
        for kind in dict.fromkeys(one.kind for one in self.learned):
            some = [one for one in self.learned if one.kind == kind]
            yield ""
            yield f"# ---- {kind}: {len(some)}"
            yield from (str(notes.get(id(one), one)) for one in some)

    def summary(self, count: int, out: str) -> Iterator[str]:
        """A summary for people."""
        place = "standard output" if out == "-" else out
        by_kind = ", ".join(f"{n} {kind}" for kind, n in Counter(one.kind for one in self.learned).most_common())
        if not self.learned:
            none = self.fitted is None or not self.fitted.candidates
            what = "no rule was found" if none else "none of the candidates makes the model better"
            yield f"bridle: {what} in {count:,} sequences; {place} contains only this note"
        else:
            yield f"bridle: {count:,} sequences; {len(self.learned)} rules ({by_kind}); written to {place}"
        yield from (f"  {line}" for line in self.told)
        yield from (f"  {n:,} dropped: {reason}" for reason, n in self.dropped.items() if n)

    def to_dict(self, count: int, out: str) -> dict[str, Any]:
        """For JSON."""
        rules = [
            {
                "rule": str(one.hard().rule),
                "kind": one.kind,
                "held": one.held,
                "of": one.of,
                "support": one.support,
                "penalty": None if one.hard() is one else penalty_of(one.rule),
            }
            for one in self.learned
        ]
        found = {
            "file": out,
            "sequences": count,
            "rules": rules,
            "dropped": {k: n for k, n in self.dropped.items() if n},
        }
        return found if self.fitted is None else {**found, "fit": self.fitted.to_dict()}


def _head(data: list[str], count: int, miner: RelationalRules, how: str, fitted: FittedRules | None) -> Iterator[str]:
    names = ("min_support", "min_confidence", "significance", "select", "max_rules", "seed")
    settings = ", ".join(f"{name} {getattr(miner, name)}" for name in names if getattr(miner, name) is not None)
    yield f"# Rules learned by bridle {bridle.__version__} from {plain(', '.join(data))}"
    yield f"# {count:,} sequences, {len(miner.labels_)} labels, scheme {miner.labels_.scheme or 'none'}; {how}"
    yield f"# kinds {', '.join(miner.kinds)}"
    yield f"# {settings}"
    yield from (f"# {line}" for line in (fitted.lines() if fitted is not None else ()))


def plain(text: str) -> str:
    """Replace characters of a file name that cannot be printed on one line."""
    return "".join(c if c.isprintable() else "?" for c in text)


def keep_edited(out: str, made: list[str]) -> None:
    """Keep an existing file with other contents as FILE.bak: somebody may have edited it."""
    try:
        before = Path(out).read_bytes() if Path(out).is_file() else b""
        if before.strip() and before.split(b"\n") != [*(line.encode() for line in made), b""]:
            with replacing(f"{out}.bak") as file:
                file.write(before)
            warn(f"the previous contents of {out} are kept in {out}.bak")
    except (OSError, ValueError, FileError) as error:
        got = error.got if isinstance(error, FileError) else getattr(error, "strerror", None) or str(error)
        what, wanted = f"cannot keep this file as {out}.bak", "a folder that is writable, and space on the disk"
        raise FileError(what, got=got, wanted=wanted, where=out) from None
