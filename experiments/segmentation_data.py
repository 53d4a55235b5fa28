"""Segmented corpora for the recipe `segmentation`: words of sentences, folded to full width, in three parts.

Half-width ASCII becomes full-width everywhere, since the training text of cws-pku has only full-width digits and
letters and the test text has both. Lines are paragraphs; they are cut into sentences after 。！？；and what closes a
quotation or a bracket just after it.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bridle.data import read
from bridle.errors import FileError
from experiments.base import Run

Sentence = list[str]  # its words
_FULL = {k: k + 0xFEE0 for k in range(0x21, 0x7F)}
_ENDS, _CLOSES = frozenset("。！？；"), frozenset("”’》）」』")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sentences to learn from, to choose by, to measure on."""

    name: str
    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]

    def sizes(self) -> str:
        """Sentences and characters of the three parts."""
        parts = ((name, getattr(self, name)) for name in ("train", "dev", "test"))
        shown = (f"{name} {len(part):,} ({sum(map(len, map(''.join, part))):,})" for name, part in parts)
        return "sentences (characters): " + ", ".join(shown)


def full_width(text: str) -> str:
    """ASCII as full-width characters; the length stays."""
    return text.translate(_FULL)


def sentences(words: Iterable[str]) -> Iterator[Sentence]:
    """The sentences of a paragraph."""
    now: Sentence = []
    ended = False
    for word in words:
        if ended and word not in _CLOSES:
            yield now
            now, ended = [], False
        now.append(word)
        ended = ended or word in _ENDS
    if now:
        yield now


def characters(part: Iterable[Sentence]) -> list[dict[str, list[str]]]:
    """Sentences as models take them."""
    return [{"char": list("".join(words))} for words in part]


def pku(run: Run) -> Corpus:
    """The last tenth of the training text is for choosing."""
    train = list(_folded(run.file("cws-pku", "199801.txt.gz"), "tag"))
    test = list(_folded(run.file("cws-pku", "pku_test_gold.utf8.gz"), None))
    if run.quick:
        train, test = train[:6000], test[:400]
    cut = len(train) * 9 // 10
    return Corpus("cws-pku", train[:cut], train[cut:], test)


def _folded(path: Path, label: Literal["tag"] | None) -> Iterator[Sentence]:
    with read(path, "slashed", label=label) as lines:
        for line in lines:
            yield from sentences(word for token in line.tokens if (word := full_width(token.strip())))


def hkcancor(run: Run) -> Corpus:
    """By file, since speakers differ: every tenth is for testing, every tenth for choosing."""
    path = run.file("cws-hkcancor", "hkcancor-chat.tar.gz")
    files = [_utterances(text) for text in _chat_files(path)]
    if len(files) < 10:
        raise FileError("too few files to split", got=len(files), wanted="ten or more .cha files", where=str(path))
    files = files[:: 3 if run.quick and len(files) >= 30 else 1]
    parts: list[list[Sentence]] = [[], [], []]
    for k, file in enumerate(files):
        parts[{0: 2, 5: 1}.get(k % 10, 0)] += file
    train, dev, test = parts
    return Corpus("cws-hkcancor", train, dev, test)


def _chat_files(path: Path) -> Iterator[str]:
    try:
        with tarfile.open(path) as archive:
            for member in sorted(archive.getmembers(), key=lambda m: m.name):
                content = archive.extractfile(member) if member.name.endswith(".cha") else None
                if content is not None:
                    yield content.read().decode("utf-8")
    except (tarfile.TarError, OSError, UnicodeDecodeError, EOFError) as error:
        wanted = "a .tar.gz of CHAT files"
        raise FileError("the archive cannot be read", got=str(error), wanted=wanted, where=str(path)) from None


def _utterances(text: str) -> list[Sentence]:
    """The words of the speakers' lines; a line that begins with a TAB goes on with the one before."""
    joined = text.replace("\r\n", "\n").replace("\n\t", " ")
    spoken = (line.partition("\t")[2] for line in joined.split("\n") if line.startswith("*"))
    return [words for line in spoken if (words := [full_width(word) for word in line.split()])]
