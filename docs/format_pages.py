"""The page of file formats: each format as its docstrings describe it, with an example and what is read from it."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bridle.data import Example, formats, limits, read, scores
from bridle.data.base import Format, format_named

EXAMPLES = {
    "brat": "T1\tPER 0 7\tAnn Lee\nT2\tLOC 13 17\tRome\n",
    "conll": "He PRP B-NP\nleft VBD B-VP\n\nShe PRP B-NP\nstayed VBD B-VP\n",
    "conllu": "# text = He left\n"
    "1\tHe\the\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n"
    "2\tleft\tleave\tVERB\tVBD\t_\t0\troot\t_\t_\n",
    "csv": "word,pos,label\nHe,PRP,B-NP\nleft,VBD,B-VP\n\nShe,PRP,B-NP\nstayed,VBD,B-VP\n",
    "doccano": '{"id": 1, "text": "Ann Lee left.", "label": [[0, 7, "PER"]]}\n',
    "jsonl": '{"id": "s1", "tokens": ["He", "left"], "labels": ["B-NP", "B-VP"], "pos": ["PRP", "VBD"], '
    '"given": {"verb": 1}}\n',
    "labelstudio": "[\n"
    '{"id": 1, "data": {"text": "Ann Lee left."}, "annotations": [{"result": [{"from_name": "label",\n'
    ' "to_name": "text", "type": "labels", "value": {"start": 0, "end": 7, "text": "Ann Lee", "labels": ["PER"]}}]}]}\n'
    "]\n",
    "parserator": "<AddressCollection>\n"
    "<AddressString><AddressNumber>12</AddressNumber> <StreetName>Elm</StreetName>, <ZipCode>60201</ZipCode>"
    "</AddressString>\n"
    "</AddressCollection>\n",
    "segmented": "上海 浦东 开发\n",
    "segments": "9112 |1\nMendenhall Mall Road, |3\n",
    "slashed": "He/PRP left/VBD 1/2/CD\n",
    "spans": '{"id": "n1", "text": "Ann Lee left.", "spans": [{"start": 0, "end": 7, "label": "PER", '
    '"text": "Ann Lee"}]}\n',
    "tagged": "<author> A. Cau, </author> <title> Formalising Dijkstra's strategy. </title> <date> 1992. </date>\n",
    "text": "Knuth, D. E. The TeXbook.\n",
}  # a file each, in the formats that are text
BESIDE = {"brat": "Ann Lee left Rome.\n"}  # the text that stands in FILE.txt beside it
LIKE = {"arrow": "jsonl", "parquet": "jsonl", "tsv": "csv"}  # the others: rows as the lines of that one


def text() -> str:
    """All formats, the score files and the limits of all, as Markdown."""
    names = sorted(formats(), key=lambda name: (name in LIKE, name))
    sections = [line for name in names for line in section(format_named(name, {}))]
    large = ["", "## How large files may be", "", *markdown(limits.__doc__ or "")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*sections, *score_files(), *large]))


def section(format: Format) -> Iterator[str]:
    """One format: what it is, an example, its options."""
    kind = type(format)
    yield from ("", f"## `{format.name}`", "")
    first, *more = introduction(kind)
    yield from (*markdown(first), "", known_by(kind))
    if format.name in LIKE:
        yield from ("", f"It has the same rows and columns as [{LIKE[format.name]}](#{LIKE[format.name]}).")
    else:
        text = EXAMPLES[format.name].rstrip("\n")
        beside = (
            ["", "with this text in the `.txt` file:", "", "```text", BESIDE[format.name].rstrip("\n"), "```"]
            if format.name in BESIDE
            else []
        )
        yield from ("", "For example, this file:", "", "```text", text, "```", *beside, "", "is read as:", "")
        yield from ("```text", *shown(example_of(format.name)), "```", "")
    yield from ("", *markdown("\n\n".join(more))) if more else ()
    yield from ("", "| option | type | what it does |", "|---|---|---|")
    for name, type_, meaning in parameters(kind):
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in (f"`{name}`", type_, meaning)) + " |"


def introduction(kind: type[Format]) -> list[str]:
    """Paragraphs of the docstring, without an example that is shown anyway."""
    text = description(kind)
    if not kind.__bases__[0].__dict__.get("name"):  # two formats that differ in little
        text += "\n\n" + description(kind.__bases__[0]).partition("\n\n")[2]
    example = " ".join(EXAMPLES.get(kind.name, "").split())
    return [part for part in text.split("\n\n") if " ".join(part.strip().partition("\n")[0].split()) not in example]


def description(kind: type) -> str:
    """The docstring of a format up to its options."""
    return (inspect.getdoc(kind) or "").partition("\n\nParameters\n")[0]


def known_by(kind: type[Format]) -> str:
    """Describe how Bridle recognises a file of this format."""
    signs = [f"by its suffix ({', '.join(f'`{suffix}`' for suffix in kind.suffixes)})"] if kind.suffixes else []
    if kind.looks_like.__func__ is not Format.looks_like.__func__:  # type: ignore[attr-defined]
        signs.append("by its first lines")
    if not signs:
        return f"Bridle does not recognise this format: pass `--format {kind.name}`."
    return f"Bridle recognises such a file {' or '.join(signs)}."


def example_of(name: str) -> Example:
    """The first sequence of the example of a format."""
    with tempfile.TemporaryDirectory() as folder:
        path = file_for(name, Path(folder))
        path.write_text(EXAMPLES[name], encoding="utf-8")
        if name in BESIDE:
            path.with_suffix(".txt").write_text(BESIDE[name], encoding="utf-8")
        with read(path, name) as examples:
            return next(examples)


def file_for(name: str, folder: Path) -> Path:
    """A place for a file of a format; where there is another one beside it, the suffix matters."""
    return folder / ("example.ann" if name in BESIDE else "example")


def shown(example: Example) -> list[str]:
    """Columns and labels, a row each, token under token."""
    rows = [[f"{name}:", *column] for name, column in example.columns.items()]
    if example.labels is not None:
        rows.append(["labels:", *example.labels])
    if example.given:
        rows.append([f"given: {dict(example.given)}"])
    widths = [max(len(row[k]) for row in rows if len(row) > max(k, 1)) for k in range(len(example) + 1)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]


def score_files() -> Iterator[str]:
    """The section about files of scores."""
    yield from ("", "## Score files", "", "`bridle decode` and `bridle.data.open_scores` read these files.", "")
    yield from (*markdown(scores.__doc__ or ""), "")


# ---- docstrings as Markdown -----------------------------------------------------------------------------------------


def markdown(text: str) -> list[str]:
    """Lines of Markdown that say what a docstring says: literal blocks are fenced, double backquotes are single."""
    lines: list[str] = []
    fenced = False
    for line in [*inspect.cleandoc(text).splitlines(), ""]:
        indented = line.startswith("    ")
        if indented and not fenced and lines and lines[-2:-1] and lines[-2].endswith("::"):
            lines[-2] = lines[-2].removesuffix("::") + ":"
            lines.append("```text")
            fenced = True
        elif fenced and line and not indented:
            while not lines[-1]:
                lines.pop()
            lines += ["```", ""]
            fenced = False
        lines.append(line.removeprefix("    ") if fenced else _code(line))
    while lines and not lines[-1]:
        lines.pop()
    return [*lines, "```"] if fenced else lines


def parameters(kind: type[Format]) -> list[tuple[str, str, str]]:
    """(name, type, meaning) of the options of a format, from the section Parameters of its docstring."""
    section = (inspect.getdoc(kind) or "").partition("Parameters\n----------\n")[2]
    section = re.split(r"\n\n\w+\n---+\n", section)[0]
    parameters = re.findall(r"^(\w+) : (.+)\n((?:(?:    .*)?(?:\n|\Z))*)", section, re.MULTILINE)
    return [(name, _code(type_), _code(" ".join(meaning.split()))) for name, type_, meaning in parameters]


def _code(text: str) -> str:
    return text.replace("``", "`")
