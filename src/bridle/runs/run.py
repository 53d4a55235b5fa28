"""A run: the sequences of files, labelled block by block in several threads, in their order.

    blocks -> memory -> threads -> (block, outcomes), in the order of the blocks

A thread reads, several label, and the caller gets results in order. No more than `memory` bytes of blocks are under
way, so input of any length needs the same memory. The caller labels the first blocks: small inputs need no threads.
"""

from __future__ import annotations

import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from queue import Empty, Full, Queue
from typing import Generic, Literal, TypeVar

from bridle._native import Stop
from bridle.data.base import Format, lacks_column
from bridle.data.blocks import ROWS, SIZE, Pace
from bridle.data.documents import whole_documents
from bridle.data.huggingface import is_saved
from bridle.data.source import Source
from bridle.decoding.decoder import Decoder
from bridle.decoding.threads import thread_count
from bridle.errors import FileError
from bridle.models import Tagger
from bridle.runs.counts import MESSAGES, Counts, text_sum
from bridle.runs.manifest import Place
from bridle.tagging import Block, Outcomes, tag
from bridle.tagging.block import Ids
from bridle.tagging.figures import Want, want_of
from bridle.tagging.labelling import ModelColumns

TICK = 0.25  # seconds that the caller waits at most before it can report progress
Item = TypeVar("Item")
Result = TypeVar("Result")


class Memory:
    """Bytes that items share. An item that is larger than all of them gets in alone."""

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 0
        self._changed = threading.Condition()

    def take(self, size: int, stop: Stop) -> bool:
        """Wait until there are so many; False if `stop` was set."""
        with self._changed:
            while not stop.is_set():
                if self.used == 0 or self.used + size <= self.size:
                    self.used += size
                    return True
                self._changed.wait(TICK)
        return False

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._changed:
            self.used -= size
            self._changed.notify_all()


def pipelined(
    items: Iterator[Item],
    work: Callable[[Item, Stop | None], Result],
    size: Callable[[Item], int],
    *,
    threads: int,
    memory: int,
) -> Iterator[tuple[Item, Result] | None]:
    """Work on items in threads; close the iterator to stop all of them.

    Parameters
    ----------
    items : generator
        It runs in a thread of its own after the first two items, and is closed there.
    work : callable
        Called as ``work(item, stop)``; if `stop` is set, it should raise soon, as kernels do. None: it is never set.
    size : callable
        Bytes of memory that an item and its result need.
    threads : int
        The number of threads that work.
    memory : int
        Bytes that all items under way may need.

    Yields
    ------
    tuple or None
        An item and its result; None if the next one is not ready yet, so that the caller can do something else.

    Examples
    --------
    >>> numbers = (n for n in range(5))
    >>> results = pipelined(numbers, lambda n, stop: n * n, lambda n: 8, threads=2, memory=1000)
    >>> [pair[1] for pair in results if pair is not None]
    [0, 1, 4, 9, 16]
    """
    try:
        for item in islice(items, 2):
            yield item, work(item, None)
        for item in islice(items, 1):
            yield from _Threads(item, items, work, size, threads, memory).results()
    finally:
        with suppress(ValueError):  # a reader that hangs is still in it
            items.close()  # type: ignore[attr-defined]  # a generator


class _Threads(Generic[Item, Result]):
    """The threads of `pipelined`."""

    def __init__(
        self,
        first: Item,
        items: Iterator[Item],
        work: Callable[[Item, Stop | None], Result],
        size: Callable[[Item], int],
        threads: int,
        memory: int,
    ) -> None:
        self._first, self._items, self._work, self._size = first, items, work, size
        self._memory, self._stop = Memory(memory), Stop()
        # what is read and not yet written: enough for every thread to have something to do
        self._queue: Queue[tuple[Item, Future[Result]] | BaseException | None] = Queue(threads + 2)
        self._pool = ThreadPoolExecutor(threads, "bridle-tag")
        self._reader = threading.Thread(target=self._read, name="bridle-read", daemon=True)

    def results(self) -> Iterator[tuple[Item, Result] | None]:
        """Yield items with their results, in order."""
        self._reader.start()
        try:
            while (entry := self._next()) is not None:
                if isinstance(entry, BaseException):
                    raise entry
                if isinstance(entry, str):
                    yield None
                    continue
                item, future = entry
                while (result := _ready(future)) is None:
                    yield None
                yield item, result[0]
                self._memory.give(self._size(item))
        finally:
            self._stop.set()
            self._memory.give(0)  # wakes the reader
            with suppress(Empty):
                while True:
                    self._queue.get_nowait()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._reader.join(TICK)  # a reader that waits for input must not keep the caller

    def _next(self) -> tuple[Item, Future[Result]] | BaseException | str | None:
        try:
            return self._queue.get(timeout=TICK)
        except Empty:
            return "not yet"

    def _read(self) -> None:
        """Read items; whatever happens is handed on to the caller."""
        end: BaseException | None = None
        try:
            item: Item | None = self._first
            while item is not None and self._memory.take(self._size(item), self._stop):
                self._put((item, self._pool.submit(self._work, item, self._stop)))
                item = next(self._items, None)
        except BaseException as error:
            end = error
        finally:
            self._items.close()  # type: ignore[attr-defined]  # a generator
        self._put(end)

    def _put(self, entry: tuple[Item, Future[Result]] | BaseException | None) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(entry, timeout=TICK)
                return
            except Full:
                continue


def _ready(future: Future[Result]) -> tuple[Result] | None:
    """The result of a call; None if it takes longer."""
    try:
        return (future.result(TICK),)
    except NotYet:
        if future.done():  # the call itself raised it
            raise
        return None


OnError = Literal["row", "raise"]
Opener = Callable[[str], tuple[Source, Format]]  # opens a file, and says which format it has
MEMORY = 10**9  # bytes
_WEIGHT = 12  # bytes that a byte of input needs on its way: features, scores, output
_REMEMBERED = 100_000  # ids


# ---- progress -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run.

    Attributes
    ----------
    rows, tokens : int
        What has been written, including by earlier calls that this one resumed.
    share : float
        Of the input, from 0 to 1.
    rate : float
        Tokens per second, of this call.
    seconds : float
        Time since this call began.
    seconds_left : float or None
        Estimate of the time until the end; None if it is too early for one.
    errors : int
        Rows that failed.
    shard : int
        The number of shards that are finished; 0 if the output is one file.
    """

    rows: int
    tokens: int
    share: float
    rate: float
    seconds: float
    seconds_left: float | None
    errors: int
    shard: int


@dataclass
class Meter:
    """Measures a run."""

    sizes: Sequence[int]  # of the inputs, in bytes; 0 if it is not known
    before: Counts  # what earlier calls have written
    clock: Callable[[], float] = time.monotonic
    share: float = 0.0
    _first: float | None = None  # the share where this call began

    def __post_init__(self) -> None:
        self._begun = self.clock()
        if not self.before.rows:
            self._first = 0.0

    def reached(self, file: int, share: float) -> None:
        """Note that a block was written that ends at this share of a file."""
        total = sum(self.sizes)
        done = sum(self.sizes[:file]) + (share * self.sizes[file] if file < len(self.sizes) else 0.0)
        self.share = max(self.share, done / total if total else 1.0)
        if self._first is None:  # where an earlier call stopped is not known, but it was just before this block
            self._first = self.share

    def progress(self, counts: Counts, shards: int) -> Progress:
        """Say how far the run is now."""
        seconds, done = self.clock() - self._begun, self.share - (self._first or 0.0)
        left = 0.0 if self.share >= 1 else seconds * (1 - self.share) / done if done > 0 else None
        rate = (counts.tokens - self.before.tokens) / seconds if seconds > 0 else 0.0
        errors = counts.status.get("error", 0)
        return Progress(counts.rows, counts.tokens, self.share, rate, seconds, left, errors, shards)


# ---- labelled blocks ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """Rows of a block that are ready to be written."""

    block: Block
    outcomes: Outcomes
    n: int  # rows to write, from the first on
    counts: Counts
    end: Place  # where they end


@dataclass(eq=False)
class Run:
    """Labels the sequences of files; iterate over it, and write what it yields.

    Parameters
    ----------
    tagger, decoder
        The model and the rules.
    inputs : sequence of str
        The files.
    opener : callable
        Opens a file and says which format it has. A pipe is opened once.
    figures, k
        What to write besides labels; the number of labellings for "k_best".
    ids : {"fill", "number"}, default "fill"
        A row without an id gets its number in the run as its id, even if another row has that as its id. "fill": only
        where other rows have ids.
    on_error : {"raise", "row"}, default "raise"
        What to do with a row that cannot be labelled: raise its error after the rows before it, or yield it as it is.
    begin : Place, optional
        Where an earlier call stopped.
    before : Counts, optional
        What earlier calls have written.
    threads, memory : int
        Threads that label, 0 for all cores; bytes for blocks under way.
    progress : callable, optional
        Called with a `Progress` after each block, and at least four times a second.
    """

    tagger: Tagger
    decoder: Decoder
    inputs: Sequence[str]
    opener: Opener
    figures: tuple[str, ...] = ()
    k: int = 1
    ids: Literal["fill", "number"] = "fill"
    on_error: OnError = "raise"
    begin: Place = (0, 0)
    before: Counts = field(default_factory=Counts)
    threads: int = 0
    memory: int = MEMORY
    pace: Pace = field(default_factory=lambda: Pace(1, most=ROWS, tokens=1 << 17))  # the first answer comes at once
    progress: Callable[[Progress], None] | None = None
    shards: Callable[[], int] = lambda: 0  # how many are finished
    repeated: int = 0  # ids that occur in more than one input
    repeated_example: str = ""
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)  # what readers skipped, by file and name
    changed: Counter[tuple[str, str]] = field(default_factory=Counter)  # what they changed
    longest: int = 0  # tokens of a sequence, among those that this call has written

    def __post_init__(self) -> None:
        self.counts = self.before
        self.want: Sequence[Want] = want_of(self.figures)
        self.facts = [_facts(path) for path in self.inputs]
        self._seen: dict[str, int] = {}
        self._columns: dict[int, Mapping[str, str]] = {}  # names of the model, by file
        self._first: tuple[Source, Format] | None = None  # the first input, once it is open

    def first_format(self) -> Format:
        """Open the first input, and say which format it has."""
        if self._first is None:
            self._first = self.opener(self.inputs[0])
        return self._first[1]

    def __iter__(self) -> Iterator[Written]:
        threads = thread_count(self.threads)
        self.pace.bytes = max(1 << 16, min(SIZE, self.memory // (_WEIGHT * (threads + 2))))
        self.meter = None if self.progress is None else Meter([size for _, size, _ in self.facts], self.before)
        for pair in pipelined(
            self._blocks(), self._label, lambda piece: _WEIGHT * piece[1].nbytes, threads=threads, memory=self.memory
        ):
            if pair is not None:
                (file, block), outcomes = pair
                yield from self._checked(file, block, outcomes)
            if self.meter is not None and self.progress is not None:
                self.progress(self.meter.progress(self.counts, self.shards()))
        if self.meter is not None and self.progress is not None:
            self.meter.share = 1.0
            self.progress(self.meter.progress(self.counts, self.shards()))

    def _blocks(self) -> Iterator[tuple[int, Block]]:
        """Blocks that are not written yet. An input that was changed meanwhile ends the run."""
        first, start = self.begin
        for file in range(first, len(self.inputs)):
            source, format = (self._first if file == 0 else None) or self.opener(self.inputs[file])
            try:
                blocks = format.blocks(source, start if file == first else 0, self.pace)
                for block in blocks if format.groups is None else whole_documents(blocks):
                    self.left_out.update({(source.name, what): n for what, n in block.left_out.items()})
                    if block.count:
                        yield file, self._fitted(file, block, format)
                self.changed.update({(source.name, what): n for what, n in source.changed.items()})
            finally:
                source.close()
            if (now := _facts(self.inputs[file])) != self.facts[file]:
                raise FileError(
                    "the input was changed while it was read",
                    got=f"{now[1]:,} bytes",
                    wanted=f"the file of {self.facts[file][1]:,} bytes that was there at first",
                    where=self.inputs[file],
                )

    def _fitted(self, file: int, block: Block, format: Format) -> Block:
        """A block with the names that the model has for its columns."""
        names = list(block.columns)
        if file not in self._columns and len(block.errors) < block.count:
            columns = ModelColumns.of(self.tagger)
            known = columns.renamed(names)
            missing = [name for name in columns.needed if name not in known]
            # with "row", a later file without a column is rows that fail
            if missing and (self.on_error == "raise" or (file, self.begin) == (0, (0, 0))):
                row = next(row for row in range(block.count) if row not in block.errors)
                raise lacks_column(format.name, missing[0], known, columns.needed, block.where(row))
            self._columns[file] = {names[0]: known[0]} if known != names else {}
        return block.renamed(self._columns[file]) if self._columns.get(file) else block

    def _label(self, piece: tuple[int, Block], stop: Stop | None) -> Outcomes:
        begun = time.perf_counter()
        outcomes = tag(piece[1], self.tagger, self.decoder, want=self.want, k=self.k, stop=stop)
        self.pace.took(time.perf_counter() - begun)
        return outcomes

    def _checked(self, file: int, block: Block, outcomes: Outcomes) -> Iterator[Written]:
        """The rows of a block to write; then the error that ends the run, if there is one."""
        n, error, ids = block.count, None, 0
        if self.on_error == "raise" and (outcomes.errors or outcomes.decodings.unanswered):
            n, error = outcomes.first_error(infeasible=self.decoder.on_infeasible == "raise")
        if block.ids is not None or self.ids == "number":
            block = self._named(block, file)
            ids = text_sum(Ids.packed(block.ids or ()).known_texts(n))
        if n:
            messages = tuple(str(outcomes.errors[row]) for row in sorted(outcomes.errors) if row < n)[:MESSAGES]
            status = Counter(outcomes.decodings.status[:n].tolist())
            ends = block.tokens.offsets[: n + 1]
            counts = Counts(n, int(ends[n]), 0, ids, dict(status), messages)
            self.longest = max(self.longest, int((ends[1:] - ends[:-1]).max()))
            yield Written(block, outcomes, n, counts, (file, block.end))
            self.counts += counts
            if self.meter is not None:
                self.meter.reached(file, block.share)
        if error is not None:
            error.sequence = None
            raise error.at(where=block.where(n) or self.inputs[file])

    def _named(self, block: Block, file: int) -> Block:
        """A block whose rows have ids."""
        if block.ids is not None and len(self.inputs) > 1:  # in one file, ids may repeat
            ids = Ids.packed(block.ids)
            for name, kind in zip(ids.texts, ids.kinds.tolist(), strict=True):
                first = self._seen.get(name, file)
                if kind and self.facts[first][0] != self.facts[file][0]:
                    self.repeated += 1
                    known = f"{name} in {self.inputs[first]} and {self.inputs[file]}"
                    self.repeated_example = self.repeated_example or known
                elif kind and len(self._seen) < _REMEMBERED:
                    self._seen[name] = file
        if isinstance(block.ids, Ids) and bool(block.ids.kinds.all()):
            return block
        numbers = range(self.counts.rows, self.counts.rows + block.count)
        names = block.ids or [None] * block.count
        return replace(
            block, ids=Ids.of(number if name is None else name for name, number in zip(names, numbers, strict=True))
        )


def _facts(path: str) -> tuple[str, int, int]:
    """Path, size and time of the last change of an input; no size if it is not a file."""
    if path == "-":
        return path, 0, 0
    try:
        status = [Path(path).stat()]
        if not stat.S_ISREG(status[0].st_mode):
            if not is_saved(path):
                return path, 0, 0
            status = [file.stat() for file in Path(path).rglob("*")]
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or error
        raise FileError("cannot read this file", got=got, wanted="a readable file", where=path) from None
    size, changed = sum(entry.st_size for entry in status), max(entry.st_mtime_ns for entry in status)
    return str(Path(path).absolute()), size, changed
