"""Presidio: results of the real AnalyzerEngine, resolved."""

from __future__ import annotations

from typing import Any

import pytest
import spacy
from presidio_analyzer import AnalyzerEngine, Pattern, PatternRecognizer, RecognizerRegistry, RecognizerResult
from presidio_analyzer.nlp_engine import SpacyNlpEngine

from bridle.errors import Infeasible, LabelError, LatticeError
from bridle.integrations.presidio import resolve


class BlankEngine(SpacyNlpEngine):
    """An NLP engine without a model: it only splits texts into words."""

    def __init__(self) -> None:
        super().__init__()
        self.nlp = {"en": spacy.blank("en")}


@pytest.fixture(scope="module")
def analyzer() -> Any:
    patterns = {
        "ACCOUNT": [Pattern("digits", r"\d{8,}", 0.6), Pattern("short", r"\d{5}", 0.3)],
        "PHONE": [Pattern("groups", r"\d{3} \d{5,8}", 0.55)],
        "ZIP": [Pattern("five", r"\b\d{5}\b", 0.4)],
        "NAME": [Pattern("capitals", r"[A-Z][a-z]+(?: [A-Z][a-z]+)*", 0.5), Pattern("one", r"[A-Z][a-z]+", 0.05)],
    }
    recognisers = [
        PatternRecognizer(supported_entity=name, patterns=some, supported_language="en", global_regex_flags=0)
        for name, some in patterns.items()
    ]
    registry = RecognizerRegistry(recognizers=recognisers, supported_languages=["en"])
    return AnalyzerEngine(registry=registry, nlp_engine=BlankEngine(), supported_languages=["en"])


TEXT = "Ada Lovelace, Evanston 60201, phone 555 12345678"


def found(results: list[RecognizerResult]) -> list[tuple[str, str]]:
    return [(result.entity_type, TEXT[result.start : result.end]) for result in results]


def test_overlaps_are_resolved(analyzer: Any) -> None:
    results = analyzer.analyze(TEXT, "en")
    assert any(a is not b and a.intersects(b) > 0 for a in results for b in results)
    chosen = resolve(results, TEXT)
    assert found(chosen) == [
        ("NAME", "Ada Lovelace"),
        ("NAME", "Evanston"),
        ("ZIP", "60201"),
        ("ACCOUNT", "12345678"),
    ]
    assert all(any(result is outcome for outcome in results) for result in chosen)  # the very objects
    assert resolve([], TEXT) == resolve(iter(()), TEXT) == []
    lazily = resolve(iter(results), TEXT)
    assert len(lazily) == len(chosen) and all(a is b for a, b in zip(lazily, chosen, strict=True))


@pytest.mark.parametrize("results", [None, 3, "Ada", [None], [("NAME", 0, 3, 0.5)]])
def test_what_results_cannot_be(results: Any) -> None:
    with pytest.raises(LatticeError, match=r"wanted what AnalyzerEngine\.analyze returned"):
        resolve(results, TEXT)


def test_rules_change_the_choice(analyzer: Any) -> None:
    results, labels = analyzer.analyze(TEXT, "en"), analyzer.get_supported_entities()
    rules = ["fix PHONE at tokens /555 12345678|12345678/", "no duplicates of NAME", r"length of NAME at least 2"]
    assert found(resolve(results, TEXT, rules, labels=labels)) == [
        ("NAME", "Ada Lovelace"),
        ("ZIP", "60201"),
        ("PHONE", "555 12345678"),
    ]
    ordered = found(resolve(results, TEXT, ["ACCOUNT before ZIP"], labels=labels))
    assert ordered[-2:] == [("ZIP", "60201"), ("PHONE", "555 12345678")]
    weak = resolve(results, TEXT, ["forbid ZIP", "at least 2 segments of ACCOUNT"], labels=labels, threshold=0.5)
    assert [text for kind, text in found(weak) if kind == "ACCOUNT"] == ["60201", "12345678"]
    nested = resolve(results, TEXT, ["forbid ZIP"], labels=labels, overlap="nest")
    assert ("PHONE", "555 12345678") in found(nested) and ("ACCOUNT", "12345678") in found(nested)


def test_rules_that_cannot_hold(analyzer: Any) -> None:
    results, labels = analyzer.analyze(TEXT, "en"), analyzer.get_supported_entities()
    with pytest.raises(Infeasible, match="at least 9 segments of NAME"):
        resolve(results, TEXT, ["at least 9 segments of NAME"], labels=labels)
    assert resolve(results, TEXT, ["at least 9 segments of NAME"], labels=labels, on_infeasible="skip") == []


def test_rules_about_unknown_types_are_refused(analyzer: Any) -> None:
    """Even if there is nothing to resolve; types of recognisers that one call brings along are only results."""
    labels = analyzer.get_supported_entities("en")
    with pytest.raises(LabelError, match=r"unknown label .*got 'PHONE_NUMER'; wanted one of .*PHONE"):
        resolve([], TEXT, ["at most 1 segment of PHONE_NUMER"], labels=labels)
    with pytest.raises(LabelError, match=r"got no labels; wanted labels=analyzer\.get_supported_entities\(\)"):
        resolve([], TEXT, ["at most 1 segment of PHONE"])
    results = [*analyzer.analyze(TEXT, "en"), RecognizerResult("POET", 0, 3, 0.9)]
    assert found(resolve(results, TEXT, ["no duplicates of NAME"], labels=labels))[0] == ("POET", "Ada")
