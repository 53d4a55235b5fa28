"""The endpoints: their answers are those of the library, and what is wrong gets its status and its four parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import bridle
from bridle.serve import Service
from bridle.serve.service import embedded_rules
from serving import Client, service_of

TEXT = "Knuth, D. E.: The TeXbook. Addison-Wesley, 1984."
ANSWERED = {"optimal", "limit", "relaxed"}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    built = Client(service_of())
    yield built
    built.app.state.close()


@pytest.fixture(scope="module")
def sample(client: Client) -> list[list[str]]:
    return [list(example.tokens) for example in client.service.sample[:40]]


# ---- /tag -----------------------------------------------------------------------------------------------------------


def test_labels_are_those_of_the_library(client: Client, sample: list[list[str]]) -> None:
    tagger = client.service.tagger
    decoder = tagger.decoder(client.service.default.rules, on_infeasible="relax")
    wanted = tagger.decode(sample, decoder)
    result = client.ok("/tag", {"tokens": sample})
    assert result["model"] == tagger.fingerprint_
    assert [outcome["labels"] for outcome in result["results"]] == wanted.labels
    assert [outcome["score"] for outcome in result["results"]] == wanted.scores.tolist()
    assert [outcome["bound"] for outcome in result["results"]] == wanted.bounds.tolist()
    assert [outcome["status"] for outcome in result["results"]] == wanted.status.tolist()
    for outcome, decoding in zip(result["results"], wanted, strict=True):
        assert outcome["penalty"] == pytest.approx(decoding.penalty)
        output = [(violation["rule"], violation["times"]) for violation in outcome["violated"]]
        assert output == [(str(rule), times) for rule, times in decoding.violated]
    assert any(outcome["violated"] for outcome in result["results"]), "otherwise nothing was compared"


def test_rules_come_by_name_as_text_or_as_sentences(client: Client, sample: list[list[str]]) -> None:
    tagger = client.service.tagger
    plain, strict = tagger.predict(sample), tagger.predict(sample, ["forbid VENUE"])
    assert plain != strict
    for body, wanted in (
        ({"rule_set": "none"}, plain),
        ({"rules": ""}, plain),
        ({"rules": []}, plain),
        ({"rule_set": "strict"}, strict),
        ({"rules": "# all of it\r\nforbid VENUE\r\n"}, strict),
        ({"rules": ["forbid VENUE"]}, strict),
    ):
        result = client.ok("/tag", {"tokens": sample, **body})
        assert [outcome["labels"] for outcome in result["results"]] == wanted, body


def test_sequences_of_a_document_are_labelled_together(client: Client) -> None:
    texts, rules = [TEXT, TEXT, TEXT], ["in the document: at most 1 token of DATE"]
    alone = client.ok("/tag", {"texts": texts, "rules": rules})["results"]
    result = client.ok("/tag", {"texts": texts, "rules": rules, "groups": ["a", "a", 7]})["results"]
    dates = [outcome["labels"].count("DATE") for outcome in result]
    assert [outcome["labels"].count("DATE") for outcome in alone] == [1, 1, 1]
    assert dates[0] + dates[1] == 1 and dates[2] == 1
    assert result[0]["score"] == result[1]["score"] != result[2]["score"] and result[2] == alone[2]
    for more in ({"groups": ["a"]}, {"groups": ["a", "b", "a"]}, {"groups": ["a"] * 3, "k": 2}):
        assert client.post("/tag", {"texts": texts, **more}).status_code == 422


def test_columns_are_another_way_to_send_tokens(client: Client, sample: list[list[str]]) -> None:
    as_columns = client.ok("/tag", {"columns": [{"word": tokens} for tokens in sample]})
    assert as_columns == client.ok("/tag", {"tokens": sample})


def test_spans_have_characters_of_the_text(client: Client) -> None:
    text = "😀 " + TEXT  # offsets count code points
    [item] = client.ok("/tag", {"texts": [text], "spans": True, "tokens_out": True})["results"]
    assert [text[a:b] for a, b in item["offsets"]] == item["tokens"]
    assert {"AUTHOR", "TITLE", "DATE"} <= {span["label"] for span in item["spans"]}
    for span in item["spans"]:
        assert text[span["start"] : span["end"]] == span["text"]
        assert set(item["labels"][span["start_token"] : span["end_token"]]) == {span["label"]}
    assert "O" not in {span["label"] for span in item["spans"]}
    [bare] = client.ok("/tag", {"tokens": [item["tokens"]], "spans": True})["results"]
    assert [(s["start"], s["end"], s["text"]) for s in bare["spans"]] == [(None, None, None)] * len(item["spans"])


def test_the_k_best_and_probabilities(client: Client, sample: list[list[str]]) -> None:
    tagger = client.service.tagger
    decoder = tagger.decoder(client.service.default.rules, on_infeasible="relax")
    given = tagger.given(sample[:3], decoder)
    assert given is not None
    result = client.ok("/tag", {"tokens": sample[:3], "k": 3, "probabilities": True})["results"]
    for item, tokens, its in zip(result, sample, given, strict=False):
        lattice = tagger.lattice(tokens)
        best = decoder.k_best(lattice, 3, its)
        assert [(r["labels"], r["score"]) for r in item["k_best"]] == [(d.labels, d.score) for d in best]
        table, ids = decoder.marginals(lattice, its), tagger.labels_.ids(item["labels"])
        assert item["probabilities"] == pytest.approx([table[t, y] for t, y in enumerate(ids)])


def test_no_labelling_is_a_value(client: Client) -> None:
    body = {"tokens": [["Knuth", ","]], "rules": ["present AUTHOR", "forbid AUTHOR"]}
    [item] = client.ok("/tag", {**body, "k": 2, "probabilities": True})["results"]
    assert (item["status"], len(item["labels"]), item["probabilities"]) == ("relaxed", 2, None)
    assert item["k_best"] == [{"labels": item["labels"], "score": item["score"]}]
    assert [(v["line"], v["cost"]) for v in item["violated"]] in ([(1, None)], [(2, None)])
    [item] = client.ok("/tag", {**body, "on_infeasible": "skip"})["results"]
    assert (item["status"], item["labels"], item["score"], item["error"]["code"]) == (
        "infeasible",
        [],
        None,
        "infeasible",
    )


def test_an_empty_request_and_an_empty_sequence(client: Client) -> None:
    assert client.ok("/tag", {"texts": []})["results"] == []
    assert client.ok("/tag", {"texts": [], "probabilities": True, "k": 2})["results"] == []
    results = client.ok("/tag", {"texts": ["", " ", TEXT], "spans": True})["results"]
    assert [len(outcome["labels"]) for outcome in results[:2]] == [0, 0]
    assert results[2]["spans"]


# ---- /decode --------------------------------------------------------------------------------------------------------


def test_scores_are_decoded_as_by_the_library(client: Client) -> None:
    unary = [[0.5, 1, None], [2, 0, 1], [0, 2, 1.5]]
    pairwise = [[0, 0.25, 0], [0, 0, None], [0, 0, 0]]
    rules = ["at most 1 token of B", "fix C at tokens /x/  [penalty 0.125]"]
    sequence = {"unary": unary, "pairwise": pairwise, "start": [0, 0, 1], "end": [0, 0, 0], "tokens": ["x", "y", "z"]}
    body = {"labels": ["A", "B", "C"], "sequences": [sequence], "rules": rules, "k": 3}
    [item] = client.ok("/decode", body)["results"]
    low = float("-inf")
    lattice = bridle.Lattice(
        [[low if x is None else x for x in row] for row in unary],
        [[low if x is None else x for x in row] for row in pairwise],
        [0, 0, 1],
        [0, 0, 0],
    )
    best = bridle.Decoder(["A", "B", "C"], rules).k_best(lattice, 3, {"tokens": ["x", "y", "z"]})
    assert [(r["labels"], r["score"]) for r in item["k_best"]] == [(d.labels, d.score) for d in best]
    assert (item["labels"], item["score"]) == (best[0].labels, best[0].score)


def test_given_values_of_scores(client: Client) -> None:
    sequence = {"unary": [[0, 1], [0, 1]], "given": {"verb": 1}}
    body = {"labels": ["A", "B"], "sequences": [sequence], "rules": ["fix A at given verb"]}
    assert client.ok("/decode", body)["results"][0]["labels"] == ["B", "A"]
    error = client.error("/decode", {**body, "sequences": [{"unary": [[0, 1]]}]}, 422, "given")
    assert "verb" in f"{error['what']} {error['wanted']}"


def test_scores_under_the_labels_of_the_model_have_its_rules(client: Client) -> None:
    names = list(client.service.labels.names)
    body = {"labels": names, "sequences": [{"unary": [[0.0] * len(names)] * 3, "tokens": ["a", "b", "c"]}]}
    with_rules, without = client.ok("/decode", body), client.ok("/decode", {**body, "rule_set": "none"})
    assert with_rules["results"][0]["labels"][0] == "AUTHOR"
    assert without["results"][0]["labels"] == [names[0]] * 3 or without["results"][0]["score"] == 0.0
    [other] = client.ok("/decode", {"labels": ["X"], "sequences": [{"unary": [[1]]}], "spans": True})["results"]
    assert (other["labels"], other["spans"][0]["label"]) == (["X"], "X")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"labels": ["A", "A"]}, "label"),
        ({"labels": ["A", "B", "C"]}, "scores"),
        ({"sequences": [{"unary": [[0, 1], [0]]}]}, "scores"),
        ({"sequences": [{"unary": [[0, 1]], "tokens": ["a", "b"]}]}, "scores"),
        ({"sequences": [{"unary": [[0, 1]], "start": [0]}]}, "scores"),
        ({"rules": ["forbid X"]}, "unknown-label"),
        ({"scheme": "BIO"}, "label"),
    ],
)
def test_scores_that_do_not_fit(client: Client, change: dict[str, Any], code: str) -> None:
    body = {"labels": ["A", "B"], "sequences": [{"unary": [[0, 1]]}]}
    client.ok("/decode", body)
    client.error("/decode", {**body, **change}, 422, code)


# ---- /explain -------------------------------------------------------------------------------------------------------


def test_reasons_are_those_of_the_library(client: Client) -> None:
    result = client.ok("/explain", {"text": TEXT, "k": 3})
    tagger = client.service.tagger
    decoder = tagger.decoder(client.service.default.rules, on_infeasible="relax")
    [given] = tagger.given([result["tokens"]], decoder) or [None]
    why = decoder.explain(tagger.lattice(result["tokens"]), given)
    assert [TEXT[a:b] for a, b in result["offsets"]] == result["tokens"]
    assert (result["plain"]["labels"], result["plain"]["score"]) == (why.plain.labels, why.plain.score)
    assert (result["best"]["labels"], result["best"]["score"]) == (why.best.labels, why.best.score)
    assert (result["changed"], result["cost"]) == (why.changed, why.cost) != ([], 0)
    assert [(e["rule"], e["price"], e["at"]) for e in result["effects"]] == [
        (str(e.rule), e.price, list(e.at)) for e in why.effects
    ]
    assert [a["labels"] for a in result["alternatives"]] == [d.labels for d in why.alternatives(3)]
    assert result["alternatives"][0]["difference"] == pytest.approx(why.best.score - why.alternatives(3)[0].score)
    table = why.probabilities("rules")
    assert table is not None
    assert result["probabilities"]["best"] == pytest.approx([table[t, y] for t, y in enumerate(why.best.ids)])
    assert result["plain"]["violated"] and result["clash"] == [] and "svg" not in result
    lines = embedded_rules().split("\n")
    for violation in result["plain"]["violated"]:
        assert violation["rule"].split("  [")[0] in lines[violation["line"] - 1]


def test_a_clash_is_named_with_its_lines(client: Client) -> None:
    rules = "# a comment\npresent AUTHOR\nforbid AUTHOR\nat most 3 segments of TITLE\n"
    result = client.ok("/explain", {"tokens": ["a", "b"], "rules": rules})
    assert result["best"]["status"] == "relaxed"
    assert sorted(item["line"] for item in result["clash"]) == [2, 3]
    assert result["alternatives"] == [] and result["alternatives_missing"] and result["probabilities"]["best"] is None


def test_a_picture_and_gold(client: Client) -> None:
    gold = ["AUTHOR", "<script>alert(1)</script>"]
    result = client.ok("/explain", {"tokens": ["a", "<script>x</script>"], "gold": gold, "picture": True})
    assert result["gold"] == gold
    assert result["svg"].startswith("<svg") and "<script" not in result["svg"]
    client.error("/explain", {"tokens": ["a"], "gold": gold}, 422, "gold")


@pytest.mark.parametrize(
    "body", [{}, {"text": "a", "tokens": ["a"]}, {"columns": {"pos": ["X"]}}, {"columns": {"word": ["a"], "pos": []}}]
)
def test_what_to_explain_must_be_clear(client: Client, body: dict[str, Any]) -> None:
    assert client.post("/explain", body).status_code == 422
    if "pos" in body.get("columns", {}) and "word" in body["columns"]:
        return  # the model does not read that column
    with_s = {"text": "texts", "columns": "columns", "tokens": "tokens"}
    assert client.post("/tag", {with_s[key]: [value] for key, value in body.items()}).status_code == 422


# ---- /rules ---------------------------------------------------------------------------------------------------------


def test_bad_rules_are_findings(client: Client) -> None:
    soft = "at most 1 token of DATE  [penalty 2 per violation]"
    rules = f"AUTHOR befor TITLE\nforbid TITEL  # why\n{soft}\nfix O at tokens /a/ by re"
    result = client.ok("/rules/check", {"rules": rules})
    assert {(finding["line"], finding["code"]) for finding in result["findings"] if finding["level"] == "error"} == {
        (1, "syntax"),
        (2, "unknown-label"),
        (4, "backtracking"),
    }
    fix = next(finding["fix"] for finding in result["findings"] if finding["line"] == 1)
    assert fix == {"title": fix["title"], "line": 1, "replacement": "AUTHOR before TITLE"}
    third = next(rule for rule in result["rules"] if rule["line"] == 3)
    assert (third["sentence"], third["penalty"], third["per"]) == ("at most 1 token of DATE", 2.0, "violation")
    assert next(rule for rule in result["rules"] if rule["line"] == 2)["comment"] == "why"


def test_test_cases_are_run(client: Client) -> None:
    good, bad = (f'example "{TEXT}" has DATE "{date}"' for date in ("1984", "TeXbook"))
    result = client.ok("/rules/test", {"rules": f"present DATE\n{good}\n{bad}\n"})["examples"]
    assert [(item["line"], item["passed"], bool(item["message"])) for item in result] == [
        (2, True, False),
        (3, False, True),
    ]
    assert result[1]["wrong"] and result[1]["tokens"][result[1]["wrong"][0]] == "TeXbook"
    assert client.ok("/rules/check", {"rules": good})["examples"] == [{"line": 1, "text": TEXT}]
    client.error("/rules/test", {"rules": f"presnt DATE\n{good}"}, 422, "rule-syntax")


def test_sentences_can_be_read(client: Client) -> None:
    sentences = client.ok("/sentences")["sentences"]
    assert len(sentences) > 10
    for sentence in sentences:
        bridle.rules.parse_lines([sentence["example"]])


@pytest.mark.parametrize(
    ("rules", "status", "code", "line"),
    [
        ("present AUTHOR\nAUTHOR befor TITLE", 422, "rule-syntax", 2),
        ("present AUTHOR\n\nforbid TITEL", 422, "unknown-label", 3),
        ("fix O at tokens /a/ by re", 422, "backtracking", 1),
        ("present AUTHOR and not fix O at tokens /a/ by re", 422, "backtracking", 1),
        ("include /etc/passwd", 422, "rule-syntax", 1),
        ('fix O at tokens in "/etc/passwd"', 422, "rule-syntax", 1),
        ('matches "(O|AUTHOR)* AUTHOR (O|AUTHOR){40}"', 422, "rule-syntax", None),
        (" or ".join(["present AUTHOR"] * 40), 413, "rule_parts", 1),
        ("fix O at tokens /(((a{1,100}){1,100}){1,100})/", 422, "rule-syntax", 1),
    ],
)
def test_rules_that_are_refused(client: Client, rules: str, status: int, code: str, line: int | None) -> None:
    error = client.error("/tag", {"texts": [TEXT], "rules": rules}, status, code)
    assert error["line"] == line
    client.error("/explain", {"text": TEXT, "rules": rules}, status, code)
    assert "root:" not in client.post("/rules/check", {"rules": rules}).text
    assert client.ok("/rules/check", {"rules": rules})["findings"]


@pytest.mark.parametrize("bad", ['example "Knuth', "example “Knuth” has AUTHOR “Knuth”", 'example "Knuth" has'])
def test_a_test_case_that_cannot_be_read_does_not_matter_to_requests_that_need_rules(client: Client, bad: str) -> None:
    rules = f"forbid DATE\n{bad}\n"
    for _ in range(2):  # the second time, the rules are remembered
        assert client.ok("/tag", {"texts": ["Knuth 1984"], "rules": rules})["results"][0]["status"] == "optimal"
        assert client.ok("/explain", {"text": "Knuth 1984", "rules": rules})["best"]["status"] == "optimal"
        assert [rule["line"] for rule in client.ok("/evaluate", {"data": "sample", "rules": rules})["rules"]] == [1]
        assert client.error("/rules/test", {"rules": rules}, 422, "rule-syntax")["line"] == 2
    assert [(rule["line"], rule["code"]) for rule in client.ok("/rules/check", {"rules": rules})["findings"]] == [
        (2, "syntax")
    ]
    for wrong in (f"{bad}\nexample before\n", f"{bad}\nexamples “Knuth”\n"):
        assert client.error("/tag", {"texts": [], "rules": wrong}, 422, "rule-syntax")["line"] == 2


def test_rules_and_a_rule_set_cannot_be_combined(client: Client) -> None:
    client.error("/tag", {"texts": [], "rules": "", "rule_set": "none"}, 422, "rules")
    client.error("/explain", {"text": "", "rules": "", "rule_set": "none"}, 422, "rules")
    client.error("/tag", {"texts": [], "rule_set": "no such"}, 404, "unknown-rule-set")
    client.error("/decode", {"labels": ["A"], "sequences": [], "rule_set": "no such"}, 404, "unknown-rule-set")


# ---- the server -----------------------------------------------------------------------------------------------------


def test_the_model_describes_itself(client: Client) -> None:
    model = client.ok("/model")
    assert (model["name"], model["version"], model["takes_text"]) == ("references", bridle.__version__, True)
    assert model["tokens"] == "references"
    assert model["labels"] == list(client.service.labels.names) and "O" not in model["types"]
    assert model["rules"] == embedded_rules() and model["rule_sets"] == ["none", "strict"]
    assert model["sample"] and len(model["sample_texts"]) == 12 and model["limits"]["rules"] == 200
    assert client.ok("/health") == {"status": "UP", "model": "references"}


def test_a_model_of_tokens_splits_texts_as_its_tokens_suggest() -> None:
    tagger = bridle.LocalTagger(features=["word[0]"]).fit([["Knuth", ",", "TeX", "."]], [["A", "O", "T", "O"]])
    for asked, how, tokens in (
        (None, "punctuation", ["Knuth", ",", "TeX", "."]),
        ("blanks", "blanks", ["Knuth,", "TeX."]),
    ):
        client = Client(Service(tagger, split_as=asked))
        assert client.ok("/model")["tokens"] == how
        [item] = client.ok("/tag", {"texts": ["Knuth, TeX."], "tokens_out": True})["results"]
        assert item["tokens"] == tokens
        [tested] = client.ok("/rules/test", {"rules": 'example "Knuth, TeX." has A "Knuth"'})["examples"]
        assert tested["tokens"] == tokens and tested["passed"] == (how == "punctuation")
        client.app.state.close()


def test_a_model_that_needs_more_than_text() -> None:
    tagger = bridle.LocalTagger(features=["word[0]", "pos[0]"])
    tagger.fit([{"word": ["the", "cat"], "pos": ["DT", "NN"]}], [["D", "N"]])
    client = Client(type(service_of())(tagger))
    model = client.ok("/model")
    assert (model["columns"], model["takes_text"], model["sample_texts"]) == (["word", "pos"], False, [])
    client.error("/tag", {"texts": ["the cat"]}, 422, "columns")
    error = client.error("/tag", {"columns": [{"word": ["the"]}]}, 422, "columns")
    assert error["sequence"] == 0 and "'pos'" in error["what"]
    [item] = client.ok("/tag", {"columns": [{"word": ["the"], "pos": ["DT"]}]})["results"]
    assert item["labels"] == ["D"]
    ruled = {"columns": [{"word": ["the"], "pos": ["DT"]}], "rules": ["fix N at tokens where pos is DT"]}
    checked = client.post("/tag", ruled)
    assert checked.status_code in (200, 422)  # whatever the sentence is called, nothing breaks
    client.app.state.close()


def test_a_model_without_templates_is_refused() -> None:
    tagger = bridle.LocalTagger(features=None).fit([[["a"], ["b"]]], [["X", "Y"]])
    with pytest.raises(bridle.ModelError, match="ready-made"):
        type(service_of())(tagger)


def test_pages_come_with_tags_and_nothing_inline(client: Client) -> None:
    for path, kind in (("/", "text/html"), ("/docs", "text/html"), ("/static/style.css", "text/css")):
        page = client.get(path)
        assert page.status_code == 200 and page.headers["content-type"].startswith(kind)
        assert page.headers["cache-control"] == "no-cache"
        again = client.get(path, headers={"if-none-match": page.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert "<script>" not in page.text and "style=" not in page.text
    assert client.get("/static/main.js").headers["content-type"].startswith("text/javascript")
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/", "/static/no.js", "/etc/passwd"):
        assert client.get(path).status_code == 404
    head = client.together([("HEAD", "/", None, {})])[0]
    assert head.status_code == 200 and head.content == b""


@pytest.mark.parametrize("path", ["/tag", "/explain", "/rules/check", "/data", "/predict"])
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "not-json"),
        (b"{", 400, "not-json"),
        (b"\xff\xfe", 400, "not-json"),
        (b"[" * 100_000, 422, "bad-value"),
        (b"[1]", 422, "bad-value"),
        (b'{"texts": 1, "text": [], "rules": 1, "name": 1, "tasks": 1}', 422, "bad-value"),
    ],
)
def test_bodies_that_are_not_requests(client: Client, path: str, body: bytes, status: int, code: str) -> None:
    client.error(path, body, status, code)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/tag", b'{"k": NaN}', 400, "not-json"),
        ("/decode", b'{"labels": ["A"], "sequences": [{"unary": [[1e999]]}]}', 422, "bad-value"),
        (
            "/decode",
            b'{"labels": ["A"], "sequences": [{"unary": [[1]], "given": {"x": %s' % (b"[" * 99_999),
            400,
            "not-json",
        ),
        ("/tag", b'{"texts": ["\\ud800"]}', 422, "surrogate"),
        ("/tag", b'{"texts": ["\\udc00 and more"]}', 422, "surrogate"),
        ("/explain", b'{"text": "", "rules": "forbid \\ud800\\ud800"}', 422, "surrogate"),
        ("/rules/check", b'{"rules": "\\ud800 x"}', 422, "surrogate"),
    ],
)
def test_values_that_json_cannot_hold(client: Client, path: str, body: bytes, status: int, code: str) -> None:
    client.error(path, body, status, code)


def test_paths_and_methods_that_there_are_not(client: Client) -> None:
    assert client.get("/nothing").json()["error"]["code"] == "not-found"
    wrong = client.get("/tag")
    assert (wrong.status_code, wrong.headers["allow"], wrong.json()["error"]["wanted"]) == (405, "POST", "POST")
    assert client.post("/health", {}).status_code == 405


HOSTILE = "<script>alert('x')</script>\u202e\x00\x1b[31m{argument}{{7*7}}%s${jndi:x}'; DROP TABLE--"


def test_strings_that_look_like_code_stay_strings(client: Client) -> None:
    [item] = client.ok("/tag", {"texts": [HOSTILE], "tokens_out": True})["results"]
    assert "".join(item["tokens"]) == "".join(HOSTILE.split())
    error = client.error("/tag", {"texts": [], "rule_set": HOSTILE}, 404, "unknown-rule-set")
    assert "{argument}" in error["got"]
    for body in ({"rules": HOSTILE}, {"rules": f'forbid "{HOSTILE}"'}, {"rules": f"# {HOSTILE}\nforbid AUTHOR"}):
        answer = client.post("/tag", {"texts": [TEXT], **body})
        assert answer.status_code in (200, 422) and answer.headers["content-type"] == "application/json"
    assert client.get("/%3Cscript%3Ealert(1)%3C/script%3E").headers["content-type"] == "application/json"


# ---- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "path", "body", "status", "code"),
    [
        ({"body_bytes": 100}, "/tag", {"texts": ["x" * 100]}, 413, "body"),
        ({"sequences": 2}, "/tag", {"texts": ["a"] * 3}, 413, "sequences"),
        ({"tokens": 5}, "/tag", {"texts": ["a b c", "d e f"]}, 413, "tokens"),
        ({"sequence_tokens": 5}, "/tag", {"tokens": [["a"], ["a"] * 6]}, 413, "sequence_tokens"),
        ({"explain_tokens": 5}, "/explain", {"tokens": ["a"] * 6}, 413, "explain_tokens"),
        ({"token_characters": 5}, "/tag", {"tokens": [["abcdef"]]}, 413, "token_characters"),
        ({"token_characters": 5}, "/explain", {"text": "abcdef"}, 413, "token_characters"),
        ({"rules": 1}, "/tag", {"texts": [], "rules": "present AUTHOR\n#\npresent DATE"}, 413, "rules"),
        ({"rules": 1}, "/rules/check", {"rules": "present AUTHOR\n#\npresent DATE"}, 413, "rules"),
        ({"rule_characters": 10}, "/explain", {"text": "", "rules": "present AUTHOR"}, 413, "rule_characters"),
        ({"rule_parts": 1}, "/tag", {"texts": [], "rules": "present DATE and present O"}, 413, "rule_parts"),
        ({"k": 3}, "/tag", {"texts": [], "k": 4}, 422, "k"),
        ({"k": 3}, "/explain", {"text": "", "k": 4}, 422, "k"),
        ({"k": 3}, "/decode", {"labels": ["A"], "sequences": [], "k": 4}, 422, "k"),
        ({"sequences": 1}, "/data", {"name": "x", "text": "a\nb\n", "format": "text"}, 413, "sequences"),
        ({"sequences": 1}, "/predict", {"tasks": [{"data": {"text": "a"}}] * 2}, 413, "sequences"),
        ({"seconds": 0.0001}, "/tag", {"texts": [TEXT] * 100}, 504, "time"),
    ],
)
def test_every_limit_has_its_status(
    limits: dict[str, Any], path: str, body: dict[str, Any], status: int, code: str
) -> None:
    client = Client(service_of(**limits))
    client.error(path, body, status, code)
    if code != "time":
        Client(service_of()).ok(path, body)  # the limit is the reason
    client.app.state.close()


def test_a_rule_of_a_list_is_one_line(client: Client) -> None:
    """Otherwise a comment could hide rules from the limit on their number."""
    body = {"tokens": [["Knuth"]], "rules": ["# x\npresent DATE"]}
    assert client.error("/tag", body, 422, "rules")["line"] == 1
    client.error("/tag", {**body, "rules": ["present DATE " + "x" * 6000]}, 413, "rule_characters")


def test_answers_have_a_bound(client: Client) -> None:
    labels = {"labels": ["O", "x" * 201], "sequences": [{"unary": [[0, 1]]}]}
    client.error("/decode", labels, 422, "bad-value")
    client.error("/tag", {"tokens": [["a"] * 15_000] * 2, "k": 50, "rule_set": "none"}, 413, "k")
    client.error("/tag", b'{"tokens": [' + b"[]," * 250_000 + b"[]]}", 413, "lists")


def test_scores_that_leave_no_labelling_blame_no_rule(client: Client) -> None:
    body = {"labels": ["A", "B"], "sequences": [{"unary": [[None, None]]}], "rules": []}
    (result,) = client.ok("/decode", body)["results"]
    assert result["error"]["what"] == "the scores leave no labelling"
