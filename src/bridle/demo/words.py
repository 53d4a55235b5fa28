"""What terminal and page say alike."""

from __future__ import annotations

from bridle.demo.experiment import Rate, Story

HEADS = ("", "tokens right", "fields, F1", "references all right", "break a rule", "references/s")


def cells(name: str, rate: Rate, per_second: float | None = None) -> tuple[str, ...]:
    """A row of the table."""
    shares = (f"{100 * share:.1f} %" for share in (rate.accuracy, rate.f1, rate.exact, rate.broken))
    return (name, *shares, "" if per_second is None else f"{per_second:,.0f}")


def head(story: Story) -> str:
    """What was done."""
    return (
        f"A CRF learned from {story.train} references in two styles ({story.seconds:.1f} s); here it labels "
        f"{story.test} references to other works in four other styles ({story.tokens:,} tokens)."
    )
