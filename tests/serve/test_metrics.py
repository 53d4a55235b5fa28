"""Counters as Prometheus reads them."""

from __future__ import annotations

import re

from bridle.serve.metrics import OTHER, Metrics
from serving import Client, service_of

LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+]+')


def test_the_text_is_in_the_format_of_prometheus() -> None:
    client = Client(service_of())
    client.ok("/tag", {"texts": ["a b c", "d"]})
    client.get("/nothing")
    result = client.get("/metrics")
    assert result.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = result.text.splitlines()
    assert result.text.endswith("\n") and all(line.startswith("# ") or LINE.fullmatch(line) for line in lines)
    for line in (
        'bridle_requests_total{path="/tag",status="200"} 1',
        f'bridle_requests_total{{path="{OTHER}",status="404"}} 1',
        "bridle_sequences_total 2",
        "bridle_tokens_total 4",
        "bridle_requests_in_flight 1",  # this one
        'bridle_request_seconds_count{path="/tag"} 1',
        'bridle_requests_waiting{lane="server_rules"} 0',
        "bridle_batch_requests_count 1",
    ):
        assert line in lines
    for name in {line.split()[2] for line in lines if line.startswith("# TYPE")}:
        assert f"# HELP {name} " in result.text
    client.app.state.close()


def test_buckets_hold_those_before_them() -> None:
    metrics = Metrics(("/tag",))
    for seconds in (0.0005, 0.001, 0.003, 99.0):
        metrics.count_request("/tag", 200, seconds)
    counts = dict(re.findall(r'seconds_bucket\{path="/tag",le="([^"]+)"\} (\d+)', metrics.text()))
    assert (counts["0.001"], counts["0.0025"], counts["0.005"], counts["10.0"], counts["+Inf"]) == tuple("22334")


def test_paths_that_strangers_make_up_do_not_grow_anything() -> None:
    metrics = Metrics(("/tag",))
    for k in range(1000):
        metrics.count_request(f"/{k}", 404, 0.0)
    assert metrics.requests == {(OTHER, 404): 1000} and set(metrics.seconds) == {"/tag", OTHER}
