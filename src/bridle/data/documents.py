"""The documents of files: a name for the document of each sequence, and blocks that hold whole documents.

groups="doc"        the value of a column, the same for all tokens of a sequence, or of a field of a record
groups="docstart"   documents begin at -DOCSTART- lines, which are sequences of their own
groups="newdoc"     documents begin at comments such as `# newdoc id = 3`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bridle.data.examples import Example
from bridle.errors import Argument, FileError, shown
from bridle.tagging.block import Block

DOCSTART, NEWDOC = "docstart", "newdoc"
_LINE, _COMMENT = "-DOCSTART-", "# newdoc"
MOST_TOKENS = 4_000_000  # of a document, with what was read with it


class DocumentNames:
    """Names the documents of the sequences of one file, in their order."""

    def __init__(self, groups: str) -> None:
        self.groups = groups
        self._count = 0  # of documents that a line began
        self._last: Any = None  # for sequences without tokens

    def name(self, columns: Mapping[str, Sequence[Any]], comments: Iterable[str], field: Any, where: str | None) -> Any:
        """Name the document of a sequence. field: of its record, if there is one."""
        tokens: Sequence[Any] = next(iter(columns.values()), ())
        if self.groups in (DOCSTART, NEWDOC):
            starts = tokens[:1] == [_LINE] if self.groups == DOCSTART else any(x.startswith(_COMMENT) for x in comments)
            self._count += starts
            return self._count
        if self.groups in columns:
            values = set(columns[self.groups])
            if len(values) > 1:
                got = ", ".join(map(repr, sorted(map(str, values))[:4]))
                raise FileError("a sequence is in several documents", got=got, wanted="one document", where=where)
            field = values.pop() if values else self._last
        elif field is None and len(tokens):
            raise FileError(
                f"there is no column or field {self.groups!r} with the document of a sequence",
                got=", ".join(map(repr, columns)),
                wanted=f"{self.groups!r}, or documents that begin at lines: {DOCSTART!r}, {NEWDOC!r}",
                cause="If the columns of the file have no names, name them in their order with {argument}.",
                argument=Argument("columns", ["word", self.groups, "label"]),
                where=where,
            )
        elif field is not None and not isinstance(field, (str, int)):
            raise FileError("not the name of a document", got=shown(field), wanted="a string or a number", where=where)
        self._last = self._last if field is None else field
        return self._last

    def of_block(self, block: Block) -> list[Any]:
        """Name the documents of all rows of a block."""
        main = next(iter(block.columns), "")
        names = [name for name in dict.fromkeys((main, self.groups)) if name in block.columns]
        used = {name: block.columns[name].lists() for name in names}
        comments = None if block.comments is None else block.comments.lists()
        return [
            self._last
            if row in block.errors
            else self.name(
                {name: lists[row] or () for name, lists in used.items()},
                () if comments is None else map(str, comments[row] or ()),
                None if block.groups is None else block.groups[row],
                block.where(row),
            )
            for row in range(len(block))
        ]

    def of_examples(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Yield sequences with the name of their document."""
        for example in examples:
            yield replace(example, group=self.name(example.columns, example.comments, example.group, example.where))


def whole_documents(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks of whole documents: a document at the end of a block is joined with what follows of it.

    A document that comes back after another one is an error with its place.
    """
    held: list[Block] = []  # of the last document
    seen: set[Any] = set()
    last: Any = None
    for block in blocks:
        if not len(block) or block.groups is None:
            yield block
            continue
        names = block.groups
        _check_order(block, names, seen, last if held else names)
        goes_on, last = bool(held) and names[0] == last, names[-1]
        cut = next((row for row in range(len(names) - 1, 0, -1) if names[row - 1] != last), 0)
        if held and (cut or not goes_on):
            yield Block.joined([*held, block.part(0, cut)] if cut else held)
            held = []
        elif cut:
            yield block.part(0, cut)
        held.append(block.part(cut, len(block)))
        if (size := sum(part.n_tokens for part in held)) > MOST_TOKENS:
            raise FileError(
                "a document is too large to be decoded as a whole",
                got=f"more than {size:,} tokens",
                wanted=f"at most {MOST_TOKENS:,}",
                cause="Do all sequences have the same document?",
                where=held[0].where(0),
            )
    if held:
        yield Block.joined(held)


def _check_order(block: Block, names: Sequence[Any], seen: set[Any], last: Any) -> None:
    """Raise if a document comes back; note those of a block."""
    for row, name in enumerate(names):
        if name == last:
            continue
        if name in seen:
            raise comes_back(name, block.where(row))
        seen.add(name)
        last = name


def comes_back(name: Any, where: str | None) -> FileError:
    """Make the error for a document that comes back after another one."""
    return FileError(
        "a document comes back after another one",
        got=repr(name),
        wanted="the sequences of a document in a row",
        cause="Sort the file by document, or give each document its own id.",
        where=where,
    )


def document_of(example: Example) -> tuple[str, Any]:
    """Return the file and the name of the document of a sequence: each file has documents of its own."""
    return example.where.rpartition(":")[0], example.group


def batches(examples: Iterable[Example], most: int) -> Iterator[list[Example]]:
    """Yield sequences in batches of about `most`, which hold whole documents if the sequences have any."""
    batch, seen = list[Example](), set[Any]()
    for example in examples:
        new = not batch or example.group is None or document_of(example) != document_of(batch[-1])
        if new and len(batch) >= most:
            yield batch
            batch = []
        if new and example.group is not None:
            if document_of(example) in seen:
                raise comes_back(example.group, example.where)
            seen.add(document_of(example))
        batch.append(example)
    if batch:
        yield batch


def documents_of(examples: Sequence[Example]) -> list[str] | None:
    """Return the document of each sequence; None if they have none. Raises if one comes back after another one."""
    if all(example.group is None for example in examples):
        return None
    for _ in batches(examples, len(examples)):
        pass
    return [":".join(map(str, document_of(example))) for example in examples]
