"""Code that train.py and tag.py share: the corpus, their options, and one training in a process of its own.

Both sides learn CoNLL-2000 chunks from the same 19 features. A training runs in a child process that does nothing else,
so that its peak memory is its own. Run as a script, this file is that child: a job in JSON in, an answer in JSON out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # one thread on every side; before NumPy is loaded

OUT = Path(__file__).parent / "out"
COLUMNS = ["word", "pos", "chunk"]


def stop(message: str) -> NoReturn:
    """Say what is missing, and end with exit code 2."""
    print(message, file=sys.stderr)
    sys.exit(2)


def options(description: str, json_name: str) -> argparse.ArgumentParser:
    """The options that both commands have."""
    parser = argparse.ArgumentParser(description=description)
    wanted = "folder that holds chunk-conll2000/{train,test}.txt.gz (default: $BRIDLE_DATA)"
    parser.add_argument("--data", type=Path, default=os.environ.get("BRIDLE_DATA"), metavar="DIR", help=wanted)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, a tenth of the iterations; rough")
    parser.add_argument("--json", type=Path, default=OUT / json_name, metavar="OUT", help="file for all figures")
    return parser


def corpus(data: str | Path | None) -> tuple[Path, Path]:
    """Training and test file; ends the program if they, or the peer, are not there."""
    if importlib.util.find_spec("pycrfsuite") is None:
        stop("python-crfsuite is not installed: pip install 'bridle-nlp[bench]'")
    if data is None:
        stop("where is the corpus? --data DIR or BRIDLE_DATA, such that DIR/chunk-conll2000/train.txt.gz exists")
    train, test = (Path(data) / "chunk-conll2000" / f"{part}.txt.gz" for part in ("train", "test"))
    for file in (train, test):
        if not file.is_file():
            stop(f"{file} is not there; wanted: the CoNLL-2000 chunking data, word, part of speech and chunk per line")
    return train, test


def read(path: str | Path, limit: int | None = None) -> tuple[list[dict[str, list[str]]], list[list[str]]]:
    """X and y of the first sentences of a file, with Bridle's reader."""
    from bridle import data

    if limit is None:
        return data.load(path, "conll", columns=COLUMNS, label="chunk")
    with data.read(path, "conll", columns=COLUMNS, label="chunk") as examples:
        some = list(islice(examples, limit))
    return [{k: list(v) for k, v in x.columns.items()} for x in some], [list(x.labels or ()) for x in some]


@dataclass(frozen=True)
class Job:
    """One training."""

    side: Literal["bridle", "crfsuite"]
    algorithm: Literal["lbfgs", "perceptron"]
    iterations: int
    train: str
    model: str  # file for what was learned
    limit: int | None = None  # sentences
    threads: int = 1
    test: str | None = None  # tag this file in the end


def run_apart(job: Job) -> dict[str, Any]:
    """Do a job in a child process: seconds, losses, number of weights, peak memory in MB, labels of the test file."""
    done = subprocess.run(
        [sys.executable, __file__, json.dumps(asdict(job))], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{job.side}, {job.algorithm}: the child process failed")
    figures: dict[str, Any] = json.loads(done.stdout)
    marks = figures["marks"]
    figures["per_iteration"] = (marks[-1] - marks[0]) / (len(marks) - 1)  # the first one has the start of all in it
    return figures


def _bridle(job: Job) -> dict[str, Any]:
    import bridle
    from bridle import features

    begin = time.perf_counter()
    X, y = read(job.train, job.limit)
    reading = time.perf_counter() - begin
    marks: list[float] = []
    model = bridle.CRF(
        job.algorithm, features="chunking", c2=1.0, iterations=job.iterations, tolerance=0.0, threads=job.threads
    )
    begin = time.perf_counter()
    model.fit(X, y, watch=lambda _: marks.append(time.perf_counter()))
    fitting, peak = time.perf_counter() - begin, _peak()
    begin = time.perf_counter()
    features.features_of("chunking").fit(X)  # a second time, because `fit` does not say how long it took
    making = time.perf_counter() - begin
    model.save(job.model)
    return {
        "read": reading,
        "features": making,
        "train": fitting - making,
        "marks": marks,
        "peak": peak,
        "losses": model.progress_.losses,
        "n_weights": model.n_weights_,
        "labels": model.predict(read(job.test)[0]) if job.test else None,
    }


def _crfsuite(job: Job) -> dict[str, Any]:
    import crfsuite_peer

    model = Path(job.model)
    figures = crfsuite_peer.train(Path(job.train), job.algorithm, job.iterations, job.limit, model)
    peak = _peak()
    return {**figures, "peak": peak, "labels": crfsuite_peer.tag(model, Path(job.test)) if job.test else None}


def _peak() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e6 / 1024)


if __name__ == "__main__":
    asked = Job(**json.loads(sys.argv[1]))
    print(json.dumps(_bridle(asked) if asked.side == "bridle" else _crfsuite(asked)))
