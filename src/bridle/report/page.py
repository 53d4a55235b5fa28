"""A page that opens without a network: text, tables, labelled tokens and pictures in one HTML file.

Everything is inside the file: style, pictures (SVG), no script. Whatever comes from users is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from bridle.labels import Labels
from bridle.report.text import clean

# Fills on which black text can be read, and which people who see few colours can tell apart (after Paul Tol's "light").
FILLS = (
    *("#99ddff", "#ffaabb", "#eedd88", "#bbcc33", "#ee8866", "#77aadd"),
    *("#44bb99", "#d9b3ff", "#ffc9a0", "#a8e6cf", "#c4c4ff", "#ffb3e6"),
)
OUTSIDE = "#dddddd"  # tokens of no field
UNKNOWN = "#ff6f61"  # labels that are none of those known
AROUND = 12  # tokens that are shown before and after those that are wrong

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #68707a; --line: #d5dae0; --back: #ffffff; --soft: #f5f7f9;
        --good: #14743a; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --dim: #98a2ad; --line: #3a4149; --back: #16191d;
        --soft: #20252a; --good: #7bd69a; --bad: #ff9c94; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 0 auto;
       max-width: 68rem; padding: 1.5rem; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1.02rem; margin: 1.4rem 0 .4rem; }
p { margin: .4rem 0; max-width: 52rem; } .dim { color: var(--dim); }
.wide { overflow-x: auto; } table { border-collapse: collapse; margin: .6rem 0; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.best td { font-weight: 600; }
code, pre { font: .9em/1.5 ui-monospace, monospace; background: var(--soft); border-radius: .25rem; }
code { padding: .1em .3em; } pre { padding: .7rem 1rem; overflow-x: auto; }
.tokens { display: flex; line-height: 2.1; margin: .1rem 0; }
.tokens b { flex: 0 0 7.5rem; font-weight: 400; color: var(--dim); }
.token { color: #111; padding: .12rem .35rem; border-radius: .25rem; white-space: nowrap; }
.wrong { outline: 2px solid var(--bad); outline-offset: 1px; }
.legend { gap: .5rem; flex-wrap: wrap; line-height: 1.5; margin: .3rem 0; }
.good { color: var(--good); } .bad { color: var(--bad); }
table.heat td, table.heat th { padding: .2rem .45rem; } table.heat caption { text-align: left; color: var(--dim); }
.right { background: color-mix(in srgb, var(--good) var(--share), transparent); }
.taken { background: color-mix(in srgb, var(--bad) var(--share), transparent); }
figure { margin: .8rem 0; overflow-x: auto; } figcaption { color: var(--dim); font-size: .92rem; }
figure svg { max-width: none; height: auto; }
"""


def fills(names: Labels | Iterable[str]) -> dict[str, str]:
    """Choose a colour for each label; under a scheme the parts of one field (B-X, I-X) share theirs.

    >>> colours = fills(Labels(["O", "B-NP", "I-NP"], scheme="BIO"))
    >>> colours["B-NP"] == colours["I-NP"] == fills(["O", "NP"])["NP"]
    True
    """
    listed = list(names)
    fields, outside = (names.type_of, names.all_outside) if isinstance(names, Labels) else (listed, ("O",))
    known: dict[str, str] = {}
    return {
        name: OUTSIDE if name in outside else known.setdefault(field, FILLS[len(known) % len(FILLS)])
        for name, field in zip(listed, fields, strict=True)
    }


class Page:
    """Parts of a page, one under the other. Each method adds a part and returns the page.

    >>> "<h2>Figures</h2>" in Page("A report").heading("Figures").html()
    True
    """

    def __init__(self, title: str, below: str = "") -> None:
        self.title = title
        self._parts = [f"<h1>{_safe(title)}</h1>", *([f'<p class="dim">{_safe(below)}</p>'] if below else [])]

    def heading(self, text: str, level: int = 2) -> Page:
        """Add a heading; 2 is below the title."""
        return self.raw(f"<h{level}>{_safe(text)}</h{level}>")

    def text(self, text: str, kind: str = "") -> Page:
        """Add a paragraph, unless it is empty; kind is "dim", "good" or "bad"."""
        return self.raw(f"<p{_class(kind)}>{_safe(text)}</p>") if text else self

    def code(self, text: str) -> Page:
        """Add lines as they are, such as a file of rules."""
        return self.raw(f"<pre>{_safe(text)}</pre>")

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[object]], *, best: int | None = None) -> Page:
        """Add a table; numbers are flush right. best: the row to print in bold."""
        body = [[str(cell) for cell in row] for row in rows]
        kinds = ["number" if body and all(_numeric(row[c]) for row in body) else "" for c in range(len(heads))]

        def line(cells: Sequence[str], tag: str, kind: str = "") -> str:
            inner = (f"<{tag}{_class(k)}>{_safe(cell)}</{tag}>" for cell, k in zip(cells, kinds, strict=True))
            return f"<tr{_class(kind)}>{''.join(inner)}</tr>"

        lines = "".join(line(row, "td", "best" if k == best else "") for k, row in enumerate(body))
        inside = f"<thead>{line(heads, 'th')}</thead><tbody>{lines}</tbody>"
        return self.raw(f'<div class="wide"><table>{inside}</table></div>')

    def heat_map(self, names: Sequence[str], rows: Sequence[Sequence[int]], caption: str) -> Page:
        """Add a matrix of gold labels (rows) against guessed ones (columns); cells are shaded by share of the row."""
        heads = "".join(f'<th scope="col">{_safe(name)}</th>' for name in names)
        lines = [f'<tr><th scope="col">gold \\ predicted</th>{heads}</tr>']
        for k, (gold, row) in enumerate(zip(names, rows, strict=True)):
            cells, total = list[str](), max(sum(row), 1)
            for j, (guess, count) in enumerate(zip(names, row, strict=True)):
                title = f"gold {gold}, predicted {guess}: {count:,} ({count / total:.1%} of the row)"
                kind = "right" if j == k else "taken"
                shade = f' class="number {kind}" style="--share:{round(45 * count / total)}%"' if count else ""
                cells.append(f'<td{shade or _class("number")} title="{_safe(title)}">{count or ""}</td>')
            lines.append(f'<tr><th scope="row">{_safe(gold)}</th>{"".join(cells)}</tr>')
        lines.insert(0, f"<caption>{_safe(caption)}</caption>")
        return self.raw(f'<div class="wide"><table class="heat">{"".join(lines)}</table></div>')

    def legend(self, colours: Mapping[str, str]) -> Page:
        """Add the names of the colours."""
        spans = "".join(_token(name, fill, name) for name, fill in colours.items())
        return self.raw(f'<div class="tokens legend">{spans}</div>')

    def tokens(
        self,
        tokens: Sequence[str],
        labels: Sequence[str],
        colours: Mapping[str, str],
        *,
        name: str = "",
        wrong: Iterable[int] = (),
    ) -> Page:
        """Add tokens in the colours of their labels, in a row with a name; those at `wrong` are framed."""
        framed = set(wrong)
        spans = (
            _token(token, colours.get(label, OUTSIDE), label, t in framed)
            for t, (token, label) in enumerate(zip(tokens, labels, strict=True))
        )
        lead = f"<b>{_safe(name)}</b>" if name else ""
        return self.raw(f'<div class="tokens">{lead}<div>{" ".join(spans)}</div></div>')

    def labellings(
        self, name: str, tokens: Sequence[str], rows: Mapping[str, Sequence[str]], wrong: Mapping[str, Sequence[int]]
    ) -> Page:
        """Add a sequence with several labellings side by side, around the tokens that are wrong in any of them.

        rows: labels by the name of the labelling; wrong: the tokens to frame in it.
        """
        differing = sorted(set().union(*wrong.values()))
        first = max(min(differing, default=0) - AROUND, 0)
        last = min(max(differing, default=0) + AROUND + 1, first + 20 * AROUND)
        colours = fills(sorted(set().union(*rows.values())))
        self.heading(name, 3)
        for row, labels in rows.items():
            framed = [t - first for t in wrong.get(row, ()) if t < last]
            self.tokens(tokens[first:last], labels[first:last], colours, name=row, wrong=framed)
        cells = ([t, tokens[t], *(labels[t] for labels in rows.values())] for t in differing[:AROUND])
        self.table(["", "token", *rows], cells)
        return self.text(f"and {len(differing) - AROUND:,} more", "dim") if len(differing) > AROUND else self

    def picture(self, svg: str, caption: str = "") -> Page:
        """Add an SVG picture of our own, without its XML declaration."""
        below = f"<figcaption>{_safe(caption)}</figcaption>" if caption else ""
        return self.raw(f"<figure>{svg[max(svg.find('<svg'), 0) :]}{below}</figure>")

    def raw(self, html: str) -> Page:
        """Add HTML as it is."""
        self._parts.append(html)
        return self

    def html(self) -> str:
        """Return the whole file."""
        return "\n".join(
            (
                '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{_safe(self.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
                *self._parts,
                "</body>\n</html>\n",
            )
        )


def _safe(text: str) -> str:
    return escape(clean(text, keep="\n\t"))


def _class(name: str) -> str:
    return f' class="{_safe(name)}"' if name else ""


def _token(text: str, fill: str, label: str, wrong: bool = False) -> str:
    kind = "token wrong" if wrong else "token"
    return f'<span class="{kind}" style="background:{_safe(fill)}" title="{_safe(label)}">{_safe(text)}</span>'


def _numeric(text: str) -> bool:
    return not text or text.lstrip("+-−").replace(",", "").replace(".", "", 1).rstrip(" %x").isdigit()
