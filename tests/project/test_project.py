"""The project around the library: pins, hooks, workflows and make targets agree with each other."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import bridle

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]
if not (ROOT / ".github").is_dir():
    pytest.skip("not a clone of the repository", allow_module_level=True)
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def pins(file: str) -> dict[str, set[str]]:
    """The versions of each package; more than one where Pythons or platforms differ."""
    result: dict[str, set[str]] = {}
    for line in (ROOT / "requirements" / file).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, version = line.split(";")[0].strip().split("==")
            result.setdefault(name, set()).add(version)
    return result


def targets() -> set[str]:
    declared = MAKEFILE.partition(".PHONY:")[2].partition("\n.DEFAULT")[0]
    return set(declared.replace("\\\n", " ").split())


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in read(workflow)["jobs"].values() for step in job.get("steps", [])]


def name_of(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement)[0].lower()


# ---- versions -------------------------------------------------------------------------------------------------------


def test_hooks_use_the_pinned_versions() -> None:
    pinned = pins("constraints.txt")
    hooks = [hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    wanted = [tuple(item.split("==")) for hook in hooks for item in hook.get("additional_dependencies", ())]
    assert {name for name, _ in wanted} >= {"ruff", "clang-format", "codespell"}
    assert [(name, version) for name, version in wanted if {version} != pinned[name]] == [], "make pins"


def test_everything_that_is_asked_for_is_pinned() -> None:
    project = SETTINGS["project"]
    extras = project["optional-dependencies"]
    run_time = [*SETTINGS["build-system"]["requires"], *project["dependencies"]]
    everything = {name_of(item) for item in [*run_time, *(item for some in extras.values() for item in some)]}
    plugged_into = set(pins("integrations.txt")) | set(pins("gliner.txt")) | set(pins("distributed.txt"))
    assert everything - set(pins("constraints.txt")) - plugged_into == set(), "make pins"
    assert {name_of(item) for item in extras["integrations"]} <= set(pins("integrations.txt")), "make pins"
    assert {name_of(item) for item in [*run_time, *extras["test"]]} - set(pins("oldest.txt")) == set(), "make pins"


@pytest.mark.parametrize("requirement", SETTINGS["project"]["dependencies"])
def test_the_oldest_versions_are_those_that_are_allowed(requirement: str) -> None:
    name, least = requirement.split(">=")
    [oldest] = pins("oldest.txt")[name]
    assert oldest == least or oldest.startswith(f"{least}.")


def test_the_version_is_the_same_everywhere() -> None:
    assert read(ROOT / "CITATION.cff")["version"] == SETTINGS["project"]["version"] == bridle.__version__


def test_the_pythons_of_the_classifiers_are_tested() -> None:
    supported = {
        line.rpartition(" ")[2]
        for line in SETTINGS["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", line)
    }
    assert set(read(ROOT / ".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]) == supported
    assert f">={min(supported, key=lambda v: int(v[2:]))}" == SETTINGS["project"]["requires-python"]


# ---- make and the workflows -----------------------------------------------------------------------------------------


def test_every_target_is_explained() -> None:
    helped = set(re.findall(r'@echo "make ([\w-]+) ', MAKEFILE)) | {"help"}
    rules = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
    assert helped == targets() == rules


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_every_target_has_all_that_it_needs() -> None:
    done = subprocess.run(["make", "-n", *sorted(targets() - {"clean"})], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_only_make(path: Path) -> None:
    called = set()
    for command in [step["run"] for step in steps(path) if "run" in step]:
        make, *words = command.split()
        assert make == "make", f"{command}: one door per chore"
        called |= {word for word in words if "=" not in word}
    assert called <= targets()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_careful(path: Path) -> None:
    """Least rights, no endless jobs, actions by commit."""
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"} and "concurrency" in workflow
    for name, job in workflow["jobs"].items():
        assert "timeout-minutes" in job or "uses" in job, name
        assert job.get("permissions", {}) in ({}, {"id-token": "write"} if path.name == "release.yml" else {})
    for step in steps(path):
        assert "uses" not in step or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"]), step


# ---- small tools ----------------------------------------------------------------------------------------------------


def tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"a\n", ""),
        (b"a \n", ":1: white space at the end"),
        (b"a", ": does not end with one line feed"),
        (b"a\r\n", ": lines end with CR LF"),
        (b"<<<<<<< HEAD\n", ":1: a mark of a merge conflict"),
        (b"a\n" * 300_001, ": 600,002 bytes, at most 600,000"),
    ],
)
def test_hygiene(text: bytes, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "some.txt"
    path.write_bytes(text)
    done = tool("hygiene.py", path)
    assert (done.returncode, done.stdout.splitlines()[:1]) == ((1, [f"{path}{fault}"]) if fault else (0, []))


def test_wheels_refuses_what_is_no_python() -> None:
    done = tool("wheels.py", "test", "/bin/false")
    assert done.returncode == 1 and "not a CPython of 3.11" in done.stderr


def test_only_the_addresses_are_missing_for_a_release() -> None:
    done = tool("release.py")
    placeholder = any("OWNER" in url for url in SETTINGS["project"]["urls"].values())
    wanted = ["pyproject.toml: [project.urls] has a placeholder; write where the repository is"] * placeholder
    assert (done.returncode, done.stdout.splitlines()) == (int(placeholder), wanted)


def test_no_page_installs_the_package_of_another_project() -> None:
    """On PyPI, `bridle` and `bridle-ai` are other projects: pages, messages and comments install bridle-nlp."""
    files = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml", "Makefile")]
    for folder in ("src", "docs", "benchmarks", "tools", "tests", ".github"):
        files += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".sh", ".yml")]
    wrong = re.compile(r"pip install[^\n`|;]*[ '\"]bridle(?!-nlp)[\s'\"`\[]|(?<![\w.])bridle\[[a-z{]")
    result = [path for path in files if "_build" not in path.parts and wrong.search(path.read_text(encoding="utf-8"))]
    assert result == []


# ---- prose ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Rules cost almost nothing at run time.\n", ""),
        ("There is no other rule, and this one is no longer needed.\n", ""),
        (
            "`seed` must be a non-negative integer; `is no` and [speaks of](x.md) `so that` are code.\n\n    anew\n",
            "1: 'speaks of'",
        ),
        ("A seed is not a seed.\n", "1: 'seed is not a seed'"),
        ("It is fast,\nso that there is no\nreason to leave rules out.\n", "2: 'so that there is no reason'"),
        ("A token\nis no label.\n", "2: 'is no'"),
        ("| a | b |\n|---|---|\n| a rule | which rules bit |\n", "3: 'rules bit'"),
        ("```text\nwritten anew\n```\n\nWritten anew.\n", "5: 'anew'"),
        (" ".join(["word"] * 40) + ".\n", ""),
        ("Short.\n" + " ".join(["word"] * 41) + ".\n", "1: a sentence of 41 words"),
    ],
)
def test_prose(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    done = tool("prose.py", path)
    assert done.returncode == bool(fault), done.stdout + done.stderr
    assert done.stdout.startswith(f"{path}:{fault}" if fault else "")
    assert len(done.stdout.splitlines()) == bool(fault)


@pytest.mark.parametrize(
    "sentence",
    [
        "It costs nothing, so that there is no reason to leave rules out.",
        '"in" is one that this verb does not have, and two arguments are cut to pieces.',
        "Most references break rules by plain Viterbi, so that most of them are searched.",
        "It says whether everything else is as it is told.",
        "Look at the one that is called so.",
        "Of all that is drawn at random.",
        "The seed is not a seed.",
        "A penalty is not a price.",
        "The option says nothing to this learner.",
        "Say that something is waited for, lest people wait too.",
    ],
)
def test_prose_that_readers_stumbled_over_is_found(sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"{sentence}\n", encoding="utf-8")
    assert tool("prose.py", path).returncode == 1


def test_prose_of_python(tmp_path: Path) -> None:
    """Docstrings, help texts and messages are read; code, doctests and short strings are not."""
    path = tmp_path / "module.py"
    path.write_text(
        '"""Made anew.\n\nAs code::\n\n    anew\n\nPlain.\n"""\n\n\n'
        'def f(x):\n    """Say it.\n\n    >>> f("anew")\n    """\n    anew = "is no"\n'
        '    raise ValueError(f"the value {x} is no\\nnumber at all")\n',
        encoding="utf-8",
    )
    result = tool("prose.py", path).stdout.splitlines()
    assert [line.partition(": write")[0] for line in result] == [f"{path}:1: 'anew'", f"{path}:17: 'is no'"]


# ---- citation -------------------------------------------------------------------------------------------------------


def test_the_papers_are_cited_alike() -> None:
    """CITATION.cff and docs/cite.md name the same papers, with the same links; the README leads there."""
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "title", "message", "authors", "version", "license", "type"} <= set(citation)
    assert len(citation["references"]) == 4
    assert "](docs/cite.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    text = " ".join((ROOT / "docs/cite.md").read_text(encoding="utf-8").split())
    for paper in citation["references"]:
        assert {"type", "title", "authors", "year"} <= set(paper)
        assert paper["title"] in text and f"({paper['year']})" in text
        assert paper.get("doi", "") in text and paper.get("url", "") in text
