"""Conditions on tokens: columns, lists, context, first and last; in the kernels, as text, in models and in files."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bridle
import bridle.rules as r
from bridle import CRF, Decoder, Labels, Lattice, LocalTagger
from bridle.errors import BridleError, EngineError, GivenError, RuleError, RuleSyntaxError
from bridle.rules.lint import lint
from bridle.rules.loading import load_lines
from bridle.rules.references import Place
from commands import Cli
from strategies import random_token_place, seeds

LABELS = Labels(["O", "X"])


def marked(place: Any, n: int, given: dict[str, Any] | None) -> list[int]:
    """Return the positions of a place by the kernels: X is better everywhere, and forbidden there."""
    decoding = Decoder(LABELS, [r.forbid("X", place)]).decode(Lattice(np.tile([0.0, 1.0], (n, 1))), given)
    return np.flatnonzero(decoding.ids == 0).tolist()


def test_kernels_see_what_the_definition_says() -> None:
    for rng in seeds(400):
        given: dict[str, Any] = {}
        n = int(rng.integers(0, 8))
        place = random_token_place(rng, n, given)
        wanted = Place.at(place).positions(n, given)
        assert marked(place, n, given) == wanted
        odd = {key: np.array(value, dtype=object) for key, value in given.items()}  # not what kernels read themselves
        assert marked(place, n, odd) == wanted


def test_places_read_back_and_pickle() -> None:
    for rng in seeds(300):
        rule = r.fix("X", random_token_place(rng, 4, {}))
        assert r.parse(str(rule)) == rule and str(r.parse(str(rule))) == str(rule)
        assert pickle.loads(pickle.dumps(rule)) == rule and hash(pickle.loads(pickle.dumps(rule))) == hash(rule)


CITIES = r.tokens(phrases=["New York", "Boston"])


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        (CITIES, [1, 2, 5]),
        (r.tokens(phrases=["new york"], ignoring="case"), [1, 2]),
        (r.tokens(phrases=["new york"]), []),
        (r.tokens(r".*", after=CITIES), [3, 6]),
        (r.tokens(r".*", before=CITIES), [0, 4]),
        (r.tokens(r".*", after=CITIES, before=r.tokens(r"\w+")), [3]),
        (r.tokens("NNP", column="pos"), [1, 2, 5]),
        (r.tokens("NNP", column="pos", after=r.tokens("IN", column="pos")), [1, 5]),
        (r.tokens("Boston", column="tokens"), [5]),
        (r.first_token(), [0]),
        (r.last_token(), [6]),
        (r.first_token(before=CITIES), [0]),
        (r.last_token(after=r.tokens("x")), []),
        (r.tokens(".*", after=r.first_token()), [1]),
        (r.tokens(".*", before=r.last_token()), [5]),
    ],
    ids=str,
)
def test_where(place: Any, wanted: list[int]) -> None:
    tokens = ["In", "New", "York", "and", "in", "Boston", "."]
    given = {"tokens": tokens, "pos": ["IN", "NNP", "NNP", "CC", "IN", "NNP", "."]}
    assert marked(place, 7, given) == wanted == Place.at(place).positions(7, given)


def test_overlapping_phrases_count_all() -> None:
    place = r.tokens(phrases=["a b", "b c d", "c"])
    assert marked(place, 5, {"tokens": list("abcde")}) == [0, 1, 2, 3]
    assert marked(r.tokens(".", after=place), 5, {"tokens": list("abcde")}) == [2, 3, 4]
    assert marked(r.tokens(".", before=place), 5, {"tokens": list("xabcd")}) == [0, 1, 2]


@pytest.mark.parametrize("place", [r.first_token(), r.last_token(), CITIES, r.tokens("a", after=CITIES)], ids=str)
def test_empty_sequences_have_no_such_place(place: Any) -> None:
    rule = r.fix("X", place)
    assert (
        rule.holds([], LABELS, {"tokens": []})
        and Decoder(LABELS, [rule]).decode(Lattice(np.zeros((0, 2))), {"tokens": []}).labels == []
    )


def test_several_rules_share_conditions() -> None:
    rules = [
        r.fix("X", r.tokens("a")),
        r.forbid("X", r.tokens("a", after=r.tokens("b"))).soft(5.0),
        r.if_present("X", then="O").soft(1.0),
        r.label_at(r.tokens(phrases=["a b"]), "X") | r.label_at(r.tokens("a", column="pos"), "X"),
    ]
    given = {"tokens": list("bab"), "pos": list("aab")}
    decoding = Decoder(LABELS, rules).decode(Lattice(np.zeros((3, 2))), given)
    assert bridle.check(Lattice(np.zeros((3, 2))), rules, decoding, given).ok and decoding.labels[1] == "X"


POS_B = r.tokens("b", column="pos")

# ---- sentences ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "place"),
    [
        ("pos /NNP/", r.tokens("NNP", column="pos")),
        ('"pos" "NNP"', r.tokens("NNP", column="pos")),
        ("pos /(?=N)NP/ by re", r.tokens("(?=N)NP", column="pos", engine="re")),
        ("first /x/", r.tokens("x", column="first")),
        ('"7" /x/', r.tokens("x", column="7")),
        ('"given" /x/', r.tokens("x", column="given")),
        (r"tokens /[A-Z].*/ after tokens /Dr\./", r.tokens("[A-Z].*", after=r.tokens(r"Dr\."))),
        ("tokens /a/ before pos /b/ after last token", r.tokens("a", after=r.last_token(), before=POS_B)),
        ("first token", r.first_token()),
        ("last token after tokens /x/", r.last_token(after=r.tokens("x"))),
        ('tokens among "New York", "Boston" ignoring case', r.tokens(phrases=["Boston", "New York"], ignoring="case")),
        ('lemma among "a", "b c" before pos /b/', r.tokens(phrases=["a", "b c"], column="lemma", before=POS_B)),
    ],
)
def test_sentences(sentence: str, place: Any) -> None:
    for before, after, built in (
        ("fix X at ", "", r.fix("X", place)),
        ("label at ", " is X", r.label_at(place, "X")),
        ("around ", " from A to B", r.around(place, left="A", right="B")),
        ("forbid X at ", " and (present X)", r.forbid("X", place) & r.present("X")),
    ):
        rule = r.parse(before + sentence + after)
        assert rule == built and r.parse(str(rule)) == rule


WORDS = ["after", "before", "in", "among", "ignoring", "case", "first", "last", "token", "re", "pos"]


@pytest.mark.parametrize("word", WORDS)
def test_words_of_places_are_labels_all_the_same(word: str) -> None:
    if word == "before":  # a word of `A before B`: it always went between quotation marks
        word = '"before"'
    other = "in" if word == "after" else "after"
    assert r.parse(f"present {word}") == r.present(word.strip('"'))
    assert r.parse(f"{word} before {other}") == r.before(word.strip('"'), other)
    for rule in (r.fix(word.strip('"'), 3), r.around(r.tokens("x"), left=word.strip('"'), right=other)):
        assert r.parse(str(rule)) == rule
    assert r.parse(f"forbid {word} at tokens /x/ and present {word}") == r.forbid(word.strip('"'), r.tokens("x")) & (
        r.present(word.strip('"'))
    )


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        ("fix X at pos", "a column and an expression such as pos /NNP/"),
        ("fix X at tokens /a/ after", "a condition such as tokens"),
        ("fix X at tokens /a/ after tokens /b/ after tokens /c/", "the end of the rule"),
        ("fix X at tokens token", "an expression between slashes"),
        ("fix X at tokens in cities", "the name of a file in quotation marks"),
        ('fix X at tokens among "a" ignoring', "'case'"),
        ("fix X at tokens among a", "a phrase in quotation marks"),
    ],
)
def test_what_is_no_sentence(sentence: str, wanted: str) -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        r.parse(sentence)
    assert wanted in str(caught.value.wanted)


# ---- lists in files -------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "cities.txt").write_text("New York\nBoston\n")
    (tmp_path / "my.rules").write_text(
        'fix X at tokens in "lists/cities.txt"\nforbid X at pos in "lists/cities.txt" ignoring case  [penalty 2.0]\n'
    )
    return tmp_path


def test_a_rules_file_names_lists_beside_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule, soft = r.load(folder / "my.rules")
    assert str(rule) == 'fix X at tokens in "lists/cities.txt"'
    assert r.parse(str(rule), folder=folder) == rule and r.parse(str(soft), folder=str(folder)) == soft
    assert marked(rule.at, 3, {"tokens": ["New", "York", "New"]}) == [0, 1]  # type: ignore[attr-defined]
    monkeypatch.chdir(folder / "lists")
    assert r.load("../my.rules") == [rule, soft]
    assert r.phrases("cities.txt") != rule.at.source.phrases  # type: ignore[attr-defined]  # another name


def test_no_file_is_read_unless_a_folder_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    sentence = 'fix X at tokens in "lists/cities.txt"'
    for call in (lambda: r.parse(sentence), lambda: Decoder(LABELS, [sentence]), lambda: r.parse_lines([sentence])):
        with pytest.raises(RuleError, match="files are not read here") as caught:
            call()
        assert "folder=" in str(caught.value)
    assert r.parse_lines([sentence], folder=".")[0].rule == r.load("my.rules")[0]


def test_rules_are_tuned_into_the_folder_of_their_lists(folder: Path, run: Cli) -> None:
    (folder / "train.txt").write_text("New X\nYork X\nis O\n\nGo O\n\n" * 4)
    (folder / "my.rules").write_text('fix X at tokens in "lists/cities.txt"\n')
    run.ok("train", folder / "train.txt", "-o", folder / "m.bridle", "--c2", "0.1")
    asked = ("rules", "tune", folder / "my.rules", "--model", folder / "m.bridle", "--data", folder / "train.txt")
    assert "name phrase lists relative" in run.ok(*asked, "-o", folder / "lists" / "t.rules", code=2).stderr
    assert run(*asked, "-o", folder / "t.rules").exit_code in (0, 1)
    assert 'in "lists/cities.txt"' in (folder / "t.rules").read_text()


def test_a_missing_list_names_the_line(folder: Path) -> None:
    (folder / "my.rules").write_text('present X\nfix X at tokens in "towns.txt"\n')
    with pytest.raises(RuleSyntaxError) as caught:
        load_lines(folder / "my.rules")
    output = str(caught.value)
    assert (
        "my.rules:2" in output and "cannot read the list 'towns.txt'" in output and str(folder / "towns.txt") in output
    )


# ---- what must come with the sequence -------------------------------------------------------------------------------


def test_a_missing_column_is_named() -> None:
    decoder = Decoder(LABELS, ["fix X at pos /N/ after chunk /B/"])
    assert decoder.required_inputs == decoder.required_columns == {"pos", "chunk"}
    scores = Lattice(np.zeros((1, 2)))
    with pytest.raises(GivenError, match="there is no column 'pos'") as caught:
        decoder.decode(scores, {"tokens": ["a"], "Pos": ["N"]})
    assert "columns tokens, Pos" in str(caught.value) and "Did you mean 'Pos'?" in str(caught.value)
    with pytest.raises(GivenError, match="differ in length"):
        decoder.decode(scores, {"pos": ["a", "b"], "chunk": ["B"]})
    with pytest.raises(GivenError, match="one text per token"):
        decoder.decode(scores, {"pos": 3, "chunk": ["B"]})
    with pytest.raises(GivenError, match="no column 'pos'"):
        decoder.decode(scores)


def test_the_linter_tells_columns_from_values() -> None:
    output = [item.message for item in lint(["fix X at pos /N/", "fix X at given verb"])]
    assert any("uses the column 'pos'" in text for text in output)
    assert any("needs given['verb']" in text for text in output)
    result = lint(["fix X at first token before pos /(a+)+b/ by re"])
    assert "backtracking" in [item.code for item in result]


def test_the_linter_reads_lists_beside_the_file(folder: Path, run: Cli) -> None:
    assert [rule.level for rule in lint((folder / "my.rules").read_text().split("\n"))].count("error") == 2
    assert not [
        rule for rule in lint((folder / "my.rules").read_text().split("\n"), folder=folder) if rule.level == "error"
    ]
    run.ok("rules", "check", folder / "my.rules", "--labels", "O,X")
    assert 'in "lists/cities.txt"' in run.stdout("rules", "show", folder / "my.rules")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: r.tokens(), "got neither"),
        (lambda: r.tokens("a", phrases=["b"]), "got both"),
        (lambda: r.tokens("a", ignoring="case"), r"\(\?i\)"),
        (lambda: r.tokens(phrases=["a"], ignoring="accents"), "unknown value of `ignoring`"),
        (lambda: r.tokens("a", column=""), "a column needs a name"),
        (lambda: r.tokens("a", column=3), "a column needs a name"),
        (lambda: r.tokens("a", after="Dr"), "after is not a condition"),
        (lambda: r.tokens("a", before=r.tokens("b", after=r.tokens("c"))), "of its own"),
    ],
)
def test_bad_conditions(call: Callable[[], object], message: str) -> None:
    with pytest.raises(RuleError, match=message):
        call()


# ---- models and files -----------------------------------------------------------------------------------------------

X = [{"word": ["Ann", "left", "New", "York"], "pos": ["NNP", "VBD", "NNP", "NNP"]}, {"word": ["Go"], "pos": ["VB"]}]
Y = [["PER", "O", "O", "O"], ["O"]]
RULES = ["fix O at pos /NNP/ before tokens /left/", 'fix PER at tokens among "new york" ignoring case']
WANTED = [["O", "O", "PER", "PER"], ["O"]]


@pytest.mark.parametrize("kind", [CRF, LocalTagger])
def test_models_pass_the_columns_that_rules_ask_for(kind: type[CRF]) -> None:
    model = kind(features=["word[0]"]).fit(X, Y)
    assert model.predict(X, RULES) == WANTED
    assert model.predict(X, RULES[1:]) == [["PER", "O", "PER", "PER"], ["O"]]
    given = [{"pos": ["X", "X", "X", "X"]}, {}]
    assert model.predict(X, RULES[:1], given=given)[0][0] == "PER"  # what is given wins over the data
    rows = [[{"word": w, "pos": p} for w, p in zip(x["word"], x["pos"], strict=True)] for x in X]
    assert model.predict(rows, RULES) == WANTED
    decoder = model.decoder(RULES)
    assert model.given(X, decoder)[0].keys() == {"pos", "tokens"}  # type: ignore[index]
    assert decoder.explain(model.lattice(X[0]), model.given(X, decoder)[0]).best.labels == WANTED[0]  # type: ignore[index]
    with pytest.raises(GivenError, match="there is no column 'pso'") as caught:
        model.predict(X, ["fix O at pso /NNP/"])
    assert caught.value.sequence == 0 and "Did you mean 'pos'?" in str(caught.value)
    with pytest.raises(GivenError, match="no columns"):
        model.predict([x["word"] for x in X], RULES)


def test_rules_on_columns_are_tuned_and_audited() -> None:
    model = CRF(features=["word[0]", "label[-1]"], c1=0, c2=0.1).fit(X * 4, Y * 4)
    rules = [r.parse(text) for text in RULES]
    audit = bridle.learn.audit_model(rules, model, X * 4, Y * 4)
    assert [row.gold for row in audit.audited] == [0.5, 0.5]
    tuned = bridle.learn.tune_rules(model, rules, X * 8, Y * 8)
    assert len(tuned.tuned) == 2


def test_inference_based_training_keeps_its_lists(folder: Path) -> None:
    rules = r.load(folder / "my.rules")[:1]
    y = [["O", "O", "X", "X"], ["O"]]
    model = CRF("ibt", features=["word[0]"], rules=rules, iterations=2).fit(X, y)
    model.save(folder / "m.bridle")
    again = bridle.load(folder / "m.bridle")
    assert again.predict(X, rules) == model.predict(X, rules)
    assert again.fit(X, y).predict(X) == model.predict(X)


def test_rules_that_a_model_could_not_keep_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridle.models.crf._LONGEST_RULES", 100)
    rules = [r.fix("O", r.tokens(phrases=map(str, range(99))))]
    with pytest.raises(BridleError, match="too long to be kept in the model"):
        CRF("ibt", features=["word[0]"], rules=rules).fit(X, Y)


CONLL = "Ann NNP PER\nleft VBD O\nNew NNP O\nYork NNP O\n\nGo VB O\n\n"


def test_command_line(run: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(CONLL * 3)
    (tmp_path / "cities.txt").write_text("new york\n")
    (tmp_path / "my.rules").write_text(
        'fix O at pos /NNP/ before word /left/\nfix PER at tokens in "cities.txt" ignoring case\n'
    )
    model, data, rules = str(tmp_path / "m.bridle"), str(tmp_path / "train.txt"), str(tmp_path / "my.rules")
    columns = ("--columns", "word,pos,label")
    run.ok("train", data, "-o", model, *columns, "--features", "word[0]", "--c2", "0.1")
    tagged = run.ok("tag", model, data, *columns, "--rules", rules).stdout
    assert [line.split()[-1] for line in tagged.splitlines()[:4]] == ["O", "O", "PER", "PER"]
    tested = json.loads(run.ok("rules", "test", rules, data, *columns, "--json").stdout)
    assert "cities.txt" in json.dumps(tested)
    (tmp_path / "my.rules").write_text("fix O at tag /NNP/\n")
    failed = run.ok("tag", model, data, *columns, "--rules", rules, code=2).stderr
    assert "there is no column 'tag'" in failed and "word, pos" in failed


# ---- spans ----------------------------------------------------------------------------------------------------------


def test_spans_in_lists_and_in_context() -> None:
    spans = [(0, 3, "PER", 1.0), (8, 16, "PER", 1.0), (8, 16, "CITY", 0.5)]
    text = "Ann saw New York ."
    for rule, wanted in (
        ('fix CITY at tokens among "new york" ignoring case', ["PER", "CITY"]),
        ("forbid PER at tokens /.*/ after tokens /saw/", ["PER", "CITY"]),
        ("forbid PER at first token", ["PER"]),
    ):
        result = bridle.select(spans, [rule], text=text)
        assert [span.label for span in result.spans] == wanted
        assert bridle.check_selection(spans, [rule], result, text=text).ok
    tokens = [(0, 1, "PER", 1.0), (1, 3, "PER", 1.0)]
    result = bridle.select(tokens, ["forbid PER at pos /V/"], tokens=["a", "b", "c"], given={"pos": ["N", "N", "V"]})
    assert [span.start for span in result.spans] == [0]
    with pytest.raises(BridleError, match="no column 'pos'"):
        bridle.select(tokens, ["forbid PER at pos /V/"], tokens=["a", "b", "c"])


def test_word_lattices_take_expressions_only() -> None:
    for rule in ("forbid WORD at pos /x/", "forbid WORD at first token", 'forbid WORD at tokens among "a"'):
        with pytest.raises(EngineError, match="no rules about positions"):
            bridle.SpanDecoder(rules=[rule])
