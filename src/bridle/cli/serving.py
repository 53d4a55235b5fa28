"""`bridle serve` and `bridle explore`: a model and its rules over HTTP, and a page where rules are written."""

from __future__ import annotations

import webbrowser
from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bridle
from bridle.cli import options as opt
from bridle.cli.base import Command, app, print_stderr, warn
from bridle.cli.reading import deterministic_rules, make_model_reader
from bridle.errors import BridleError, RuleError
from bridle.extras import needed
from bridle.models import Tagger

if TYPE_CHECKING:
    from bridle.data import Example
    from bridle.serve import Limits, RuleText, Service

ACCESS = "Access"
EXPLORER_PORT, MORE_PORTS = 8765, 20  # of bridle explore: a fixed one, so that the browser finds what it has kept
EXPLORER_LIMITS = {  # the only user is the one who has started it
    "body_bytes": 300_000_000,
    "sequences": 100_000,
    "tokens": 5_000_000,
    "data_bytes": 2_000_000_000,
    "rules": 1000,
    "rule_characters": 500_000,
    "seconds": 20.0,
}


class LogFormat(Enum):
    """Forms of the log."""

    text = "text"
    json = "json"


HostOption = Annotated[str, opt.option("--host ADDRESS", "Address to listen on.")]
TokenOption = Annotated[
    str | None,
    opt.option("--token TEXT", "Token that requests must send.", ACCESS, envvar="BRIDLE_TOKEN", show_envvar=True),
]
DataOption = Annotated[
    str | None, opt.option("--data FILE", "Sequences that the page shows, with or without gold labels.")
]


def _limit(help: str, *, metavar: str = "N", min: float | None = 1) -> Any:
    return typer.Option(metavar=metavar, min=min, help=help, rich_help_panel=opt.LIMITS)


@app.command(cls=Command)
@opt.grouped
def serve(
    *,
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="Models that bridle train wrote; the first is the default.")
    ],
    rules: Annotated[
        list[str] | None, opt.option("--rules [MODEL=]FILE", ".rules file to obey, or of one model; can be repeated.")
    ] = None,
    rule_set: Annotated[
        list[str] | None, opt.option("--rule-set NAME=FILE", "Further rules that requests can name; can be repeated.")
    ] = None,
    data: DataOption = None,
    reads: opt.DataOptions,
    tokens: opt.TokensOption = None,
    host: HostOption = "127.0.0.1",
    port: Annotated[int, opt.option("--port N", "Port; 0 takes a free one.", min=0, max=65535)] = 8000,
    token: TokenOption = None,
    cors: Annotated[
        list[str] | None, opt.option("--cors ORIGIN", "Site whose pages may call the server; can be repeated.", ACCESS)
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        opt.option(
            "--allow-host NAME",
            "Further name by which the server may be called, if it listens on localhost; can be repeated.",
            ACCESS,
        ),
    ] = None,
    seconds: Annotated[float, _limit("Time per request.", metavar="S", min=0.01)] = 10.0,
    max_body: Annotated[str, _limit("Size of a request.", metavar="SIZE", min=None)] = "4MB",
    max_sequences: Annotated[int, _limit("Sequences per request.")] = 10_000,
    max_tokens: Annotated[int, _limit("Tokens per request.")] = 200_000,
    max_sequence_tokens: Annotated[int, _limit("Tokens per sequence.")] = 20_000,
    max_explain_tokens: Annotated[int, _limit("Tokens of a sequence to be explained.")] = 2_000,
    max_token_characters: Annotated[int, _limit("Characters per token.")] = 1_000,
    max_rules: Annotated[int, _limit("Rules that a request may bring along.", min=0)] = 200,
    max_rule_characters: Annotated[int, _limit("Characters of these.", min=0)] = 100_000,
    max_rule_parts: Annotated[int, _limit("Parts of one rule, joined by and, or, not and implies.")] = 16,
    max_k: Annotated[int, _limit("Labellings that a request may ask for.")] = 50,
    max_waiting: Annotated[int, _limit("Requests that may wait; others get the status 429.")] = 256,
    sequence_memory: Annotated[
        str, _limit("Working memory for each sequence, and for tables of labels x labels.", metavar="SIZE", min=None)
    ] = "200MB",
    max_compiled: Annotated[
        str, _limit("Memory for compiled rules that are kept.", metavar="SIZE", min=None)
    ] = "300MB",
    max_data: Annotated[str, _limit("Memory for data that was uploaded.", metavar="SIZE", min=None)] = "100MB",
    threads: opt.ThreadsOption = 0,
    corrections: Annotated[
        Path | None,
        opt.option("--corrections FILE", "Store what annotators of Label Studio submit, for bridle train.", opt.OUTPUT),
    ] = None,
    access_log: Annotated[bool, opt.option("--access-log", "Log every request on stderr.", opt.OUTPUT)] = False,
    log_format: Annotated[
        LogFormat, opt.option("--log-format", "Format of the lines of the log.", opt.OUTPUT)
    ] = LogFormat.text,
) -> None:
    """Serve models and their rules over HTTP.

    Open http://127.0.0.1:8000/ in a browser, or call POST /tag, /decode, /explain, /rules/check, /evaluate and others;
    GET /docs lists them, GET /openapi.json describes them. Requests that arrive together are decoded in one batch.
    Label Studio can use the same address as its ML backend. A request reads no file, and its rules are limited.

    All paths exist as /v1/... too; /v1/models/NAME/tag and so on are those of the model NAME.bridle. SIGTERM and Ctrl-C
    stop the server when requests in flight have been answered; a second Ctrl-C stops it at once. SIGHUP, or POST
    /reload with the token, loads models and rules again without losing a request.

    \b
    Examples:
      bridle serve refs.bridle --rules my.rules
      bridle serve refs.bridle --rules my.rules --rule-set strict=strict.rules --port 9000
      bridle serve refs.bridle ner.bridle --rules refs=refs.rules --rules ner=ner.rules
      BRIDLE_TOKEN=secret bridle serve refs.bridle --host 0.0.0.0
      curl localhost:8000/tag -H 'Content-Type: application/json' -d '{"texts": ["Knuth, D.: The TeXbook. 1984"]}'

    \b
    Exit codes:
      0    stopped by SIGTERM
      2    bad input, bad usage, or the address is not free
      130  stopped by Ctrl-C
    """
    _check_extra()
    from bridle.serve import Limits

    limits = Limits(
        body_bytes=opt.parse_size(max_body, "max_body"),
        sequences=max_sequences,
        tokens=max_tokens,
        sequence_tokens=max_sequence_tokens,
        explain_tokens=max_explain_tokens,
        token_characters=max_token_characters,
        rules=max_rules,
        rule_characters=max_rule_characters,
        rule_parts=max_rule_parts,
        k=max_k,
        seconds=seconds,
        waiting=max_waiting,
        max_memory=opt.parse_size(sequence_memory, "sequence_memory"),
        compiled_bytes=opt.parse_size(max_compiled, "max_compiled"),
        data_bytes=opt.parse_size(max_data, "max_data"),
    )
    known = {model.stem for model in models}

    def load_services() -> list[Service]:
        services = []
        for k, model in enumerate(models):
            decide, own = deterministic_rules(_rules_of(model.stem, rules, known))
            tagger = bridle.load(model).decide_with(decide)
            sample = _examples(tagger, None if k else data, reads)
            sets = None if k else rule_set
            services.append(_service(tagger, model.stem, own, sets, sample, limits, threads, tokens))
        return services

    from bridle.serve.labelstudio import Corrections

    services = load_services()
    store = None if corrections is None else Corrections(corrections)
    parts = (("compiled rules", max_compiled), ("data", max_data), ("each sequence at work", sequence_memory))
    kept = ", ".join(f"{size} for {what}" for what, size in parts)
    held = f"{limits.all_bodies / 1e6:g}MB of requests, which take several times that when they are parsed"
    print_stderr(f"bridle: memory besides the models: {kept}, {held}")
    if not is_loopback(host) and token is None:
        warn(f"everybody who can reach {host} can use this server; pass --token, or set BRIDLE_TOKEN")
    one_or_all = services[0] if len(services) == 1 else services
    more: dict[str, Any] = {"port": port, "load": load_services, "corrections": store, "log_format": log_format.value}
    access: dict[str, Any] = {"token": token, "cors": cors or (), "allowed": allow_host}
    _run(one_or_all, host, **access, access_log=access_log, page=False, **more)


@app.command(cls=Command)
@opt.grouped
def explore(
    *,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[MODEL] [RULES]",
            help="Model that bridle train wrote (default: one for references), and a .rules file to edit.",
        ),
    ] = None,
    rules: opt.RulesOption = None,
    data: DataOption = None,
    reads: opt.DataOptions,
    tokens: opt.TokensOption = None,
    port: Annotated[
        int | None,
        opt.option(
            "--port N", f"Port; 0 takes a free one. Default: {EXPLORER_PORT}, or the next free one.", min=0, max=65535
        ),
    ] = None,
    browser: Annotated[bool, opt.option("--browser/--no-browser", "Open the page in a browser.")] = True,
) -> None:
    """Open a page where you write rules and see what they do.

    Without MODEL, a small CRF is trained on references that ship with Bridle, which takes less than a second. The page
    saves rules to RULES, which is made if it does not exist; --rules FILE does the same if there is one FILE. The page
    is served on localhost only. Ctrl-C ends it.

    \b
    Examples:
      bridle explore
      bridle explore my.rules
      bridle explore refs.bridle my.rules --data dev.txt
      bridle explore --no-browser --port 8000

    \b
    Exit codes:
      0    stopped by SIGTERM
      2    bad input, bad usage, or the address is not free
      130  stopped by Ctrl-C
    """
    _check_extra()
    from bridle.serve import Limits, RuleText
    from bridle.serve.service import embedded_model, embedded_rules, embedded_sample
    from bridle.serve.workspace import Workspace

    named = [path for path in files or () if path.suffix == ".rules"]
    models = [path for path in files or () if path.suffix != ".rules"]
    if len(models) > 1 or len(named) > 1:
        got = " ".join(map(str, files or ()))
        raise BridleError("the explorer shows one model and one .rules file", got=got, wanted="[MODEL] [RULES]")
    paths = [*(rules or ()), *named]
    edited = paths[0] if len(paths) == 1 else None
    read = [path for path in paths if path not in named or path.exists()]
    model = models[0] if models else None
    tagger = embedded_model() if model is None else bridle.load(model)
    default = None
    if not paths and model is None:
        default = RuleText.from_text(embedded_rules(), tagger.labels_)
    name = "references" if model is None else model.stem
    sample = embedded_sample() if model is None and data is None else _examples(tagger, data, reads)
    limits = Limits(**EXPLORER_LIMITS)  # type: ignore[arg-type]
    try:
        service = _service(tagger, name, read, None, sample, limits, 0, tokens, default)
    except BridleError as error:
        if model is None and paths:
            error.cause = error.cause or "Without a MODEL, this is the one for references: bridle explore MODEL RULES."
        raise
    if edited is not None and service.default.loaded.includes:
        warn(f"{edited} includes other files, so that the page cannot save it")
        edited = None
    name = "Sample references" if data is None and model is None else "" if data is None else Path(data).name
    service = replace(service, workspace=Workspace(edited), sample_name=name)
    ports: dict[str, Any] = {"port": EXPLORER_PORT, "more_ports": MORE_PORTS} if port is None else {"port": port}
    _run(service, "127.0.0.1", token=None, cors=(), allowed=None, access_log=False, page=browser, **ports)


def _check_extra() -> None:
    for package in ("msgspec", "starlette", "uvicorn", "httptools"):
        needed(package, "serve", "the HTTP service needs msgspec, Starlette, uvicorn and httptools")


def _examples(tagger: Tagger, data: str | None, reads: opt.DataOptions) -> list[Example]:
    """Return the sequences that the page shows."""
    if data is None:
        return []
    with make_model_reader(tagger, *reads.arguments, "missing").open(data) as examples:
        return list(examples)


def _rules_of(name: str, rules: Sequence[str] | None, known: Collection[str]) -> list[Path]:
    """Return the files of rules of a model: those that name it, and those that name none."""
    files = []
    for path in rules or ():
        model, is_, rest = path.partition("=")
        if not is_ or model not in known:
            files.append(Path(path))
        elif model == name:
            files.append(Path(rest))
    return files


def _service(
    tagger: Tagger,
    name: str,
    rules: Sequence[Path] | None,
    rule_sets: Sequence[str] | None,
    sample: Sequence[Example],
    limits: Limits,
    threads: int,
    tokens: opt.TokensKind | None,
    default: RuleText | None = None,
) -> Service:
    from bridle.serve import Service
    from bridle.serve.service import NO_RULES, RuleText

    sets = {}
    for rule_set in rule_sets or ():
        known, is_, path = rule_set.partition("=")
        if not is_ or not known or not path or known == NO_RULES or known in sets:
            wanted = f"NAME=FILE, with a name of its own that is not {NO_RULES!r}"
            raise RuleError("--rule-set does not name rules", got=repr(rule_set), wanted=wanted)
        sets[known] = RuleText.from_files([Path(path)], tagger.labels_)
    rule_text = default if default is not None else RuleText.from_files(rules or (), tagger.labels_)
    tokenizer = None if tokens is None else tokens.library_name
    return Service(tagger, name, rule_text, sets, limits, sample, threads, tokenizer)


def is_loopback(host: str) -> bool:
    """Return True if an address only reaches this machine.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _run(
    services: Service | Sequence[Service],
    host: str,
    *,
    token: str | None,
    cors: Sequence[str],
    allowed: Sequence[str] | None,
    access_log: bool,
    page: bool,
    **more: Any,
) -> None:
    from bridle.serve import run

    if token is not None and not token.strip():
        raise BridleError("the token is empty", got="an empty text", wanted="a token, or no --token")
    local = {"localhost", "127.0.0.1", "[::1]", host, *(allowed or ())}
    hosts = local if is_loopback(host) or allowed else None

    def ready(address: str) -> None:
        names = ", ".join(service.name for service in (services if isinstance(services, Sequence) else [services]))
        print_stderr(f"bridle: serving {names} at {address}/ (Ctrl-C stops it)")
        if page:
            webbrowser.open(f"{address}/")

    log = "info" if access_log else "warning"
    run(services, host=host, token=token, origins=cors, hosts=hosts, log=log, ready=ready, **more)
