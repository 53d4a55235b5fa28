"""The share of wrong predictions that come first when the tasks of Label Studio are sorted by their scores.

    python benchmarks/ranking.py

The model, the rules and the tasks are those of `bridle explore`: 600 references in styles that the model has not seen.
`POST /predict` answers; a task is wrong if a label differs from gold. An annotator who checks the first quarter finds

score              those of the first quarter by the score of the predictions: the model alone, changed tasks first
given the rules    those by the probability given the hard rules, which is near 1 for labels that a rule has forced
any order          as many as tasks in any order have, on average
"""

from __future__ import annotations

from bridle.serve import RuleText, Service
from bridle.serve.labelstudio import Prediction, PredictRequest, predict
from bridle.serve.service import embedded_model, embedded_rules, embedded_sample


def main() -> None:
    """Label the tasks, and count."""
    model = embedded_model()
    service = Service(model, default=RuleText.from_text(embedded_rules(), model.labels_))
    sample = [example for example in embedded_sample() if example.text is not None]
    texts = [example.text or "" for example in sample]
    predictions = predict(service, PredictRequest([{"data": {"text": text}} for text in texts])).results
    labels = model.predict(service.split_all(texts), service.default.rules, on_infeasible="relax")
    wrong = [guess != list(example.labels or ()) for guess, example in zip(labels, sample, strict=True)]
    quarter = len(sample) // 4

    def first(values: list[float]) -> int:
        order = sorted(range(len(sample)), key=values.__getitem__)
        return sum(wrong[k] for k in order[:quarter])

    def by_rules(prediction: Prediction) -> float:
        known = prediction.probability_with_rules
        return 1.0 if known is None else known

    by_score = first([1.0 if prediction.score is None else prediction.score for prediction in predictions])
    print(f"{len(sample)} tasks, {sum(wrong)} of them wrong; wrong ones among the first {quarter}:")
    print(f"score            {by_score}")
    print(f"given the rules  {first([by_rules(prediction) for prediction in predictions])}")
    print(f"any order        {quarter * sum(wrong) / len(sample):.0f}")


if __name__ == "__main__":
    main()
