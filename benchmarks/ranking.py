"""The share of wrong predictions that come first when the tasks of Label Studio are sorted by their scores.

    python benchmarks/ranking.py [--data DIR]

The model, the rules and the tasks are those of `bridle explore`: 600 references in styles that the model has not seen.
With --data, also a CRF that was trained on 400 references of AnyStyle, rules that were learned on the same, and 290
other references as tasks: most tasks are right there, as they are for a model that is in use.
`POST /predict` answers; a task is wrong if a label differs from gold. An annotator who checks the first quarter finds

score              those of the first quarter by the score of the predictions: the model alone, changed tasks first
given the rules    those by the probability given the hard rules, which is near 1 for labels that a rule has forced
any order          as many as tasks in any order have, on average
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Sequence
from pathlib import Path

import bridle
from bridle.serve import RuleText, Service
from bridle.serve.labelstudio import Prediction, PredictRequest, predict
from bridle.serve.service import embedded_model, embedded_rules, embedded_sample

TRAINING, TASKS = 400, 290


def embedded() -> tuple[Service, list[tuple[str, list[str | None]]]]:
    """The service of `bridle explore`, and its texts with gold labels."""
    model = embedded_model()
    tasks = [(example.text, list(example.labels or ())) for example in embedded_sample() if example.text is not None]
    return Service(model, default=RuleText.from_text(embedded_rules(), model.labels_)), tasks


def anystyle(folder: Path) -> tuple[Service, list[tuple[str, list[str | None]]]]:
    """A service for references of AnyStyle, with learned rules, and other references."""
    X, y = bridle.data.load(folder / "citations-anystyle" / "good.xml.gz", "tagged", tokens="blanks")
    chosen = random.Random(0).sample(range(len(X)), TRAINING + TASKS)
    train, others = chosen[:TRAINING], chosen[TRAINING:]
    model = bridle.CRF(features="fields", c1=0.1, c2=0.1).fit([X[k] for k in train], [y[k] for k in train])
    learned = bridle.learn.fit_rules(model, [X[k] for k in train], [y[k] for k in train], threads=1).rules
    rules = RuleText.from_text("\n".join(map(str, learned)), model.labels_)
    print(f"{len(learned)} rules were learned; ", end="")
    return Service(model, default=rules, split_as="blanks"), [(" ".join(X[k]["word"]), y[k]) for k in others]


def count(service: Service, tasks: Sequence[tuple[str, Sequence[str | None]]]) -> None:
    """Label the tasks, and count."""
    predictions = predict(service, PredictRequest([{"data": {"text": text}} for text, _ in tasks])).results
    X = service.split_all([text for text, _ in tasks])
    labels = service.tagger.predict(X, service.default.rules, on_infeasible="relax")
    wrong = [guess != list(gold) for guess, (_, gold) in zip(labels, tasks, strict=True)]
    quarter = len(tasks) // 4

    def first(values: list[float]) -> int:
        order = sorted(range(len(tasks)), key=values.__getitem__)
        return sum(wrong[k] for k in order[:quarter])

    def by_rules(prediction: Prediction) -> float:
        known = prediction.probability_with_rules
        return 1.0 if known is None else known

    by_score = first([1.0 if prediction.score is None else prediction.score for prediction in predictions])
    print(f"{len(tasks)} tasks, {sum(wrong)} of them wrong; wrong ones among the first {quarter}:")
    print(f"score            {by_score}")
    print(f"given the rules  {first([by_rules(prediction) for prediction in predictions])}")
    print(f"any order        {quarter * sum(wrong) / len(tasks):.0f}")


def main() -> None:
    """Count for the embedded references, and for those of AnyStyle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("BRIDLE_DATA"), help="folder with citations-anystyle")
    folder = parser.parse_args().data
    count(*embedded())
    if folder is not None:
        count(*anystyle(Path(folder)))


if __name__ == "__main__":
    main()
