"""The shape of the package: who may import whom, what is public, what is documented, how large a file may grow."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

import pytest

import bridle
import bridle.learn
from bridle import rules
from bridle.data import formats
from bridle.data.base import format_named
from bridle.engines import engine_names
from bridle.rules.base import Rule
from contract import examine
from strategies import BOOLEAN_KINDS, RULE_KINDS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "bridle"
MODULES = sorted(SOURCE.rglob("*.py"))
KERNELS = sorted(path for path in (ROOT / "cpp").rglob("*") if path.is_file())

# A module imports only from rows above its own, or from its own package.
ARROW = [
    ["installation"],
    ["_native", "errors"],
    [
        "atomic",
        "deadline",
        "extras",
        "interrupts",
        "phrases",
        "processor",
        "recent",
        "texts",
    ],
    ["frames", "labels"],
    ["arrays"],
    ["lattice"],
    ["automata", "features", "report"],
    ["rules"],
    ["decoding.problem", "decoding.threads"],
    ["engines"],
    ["decoding.result"],
    ["decoding.documents", "decoding.judge", "decoding.marginals", "explain"],
    ["decoding"],
    ["tagging"],
    ["data", "models", "spans"],
    ["arrow", "runs"],
    ["bulk"],
    ["learn"],
    ["demo"],
    ["__init__"],
    ["torch"],
    ["integrations"],
    ["serve"],
    ["cli"],
    ["__main__"],
]
# Some must know less than their row allows.
ONLY = {
    "decoding.judge": {"errors", "labels", "lattice", "rules", "decoding.result"},  # shares no code with the engines
    "atomic": {"errors"},
    "data": {
        *(
            "_native",
            "arrays",
            "atomic",
            "errors",
            "extras",
            "features",
            "labels",
            "lattice",
            "tagging",
            "texts",
        )
    },
    "features": {"_native", "arrays", "errors", "frames", "labels", "phrases", "recent", "texts"},
}
# Modules; what needs packages of others is imported by tests/heavy.
NAMES = [
    "bridle",
    *(
        node.name
        for node in pkgutil.walk_packages(bridle.__path__, "bridle.")
        if not node.name.startswith(("bridle.integrations.", "bridle.torch"))
    ),
]
LARGEST = 600  # lines
LARGER: dict[str, int] = {}  # "rules/linear.py": 600, with the reason; empty is best


def ids(path: Path) -> str:
    return path.name if (ROOT / "cpp") in path.parents else path.relative_to(SOURCE).as_posix()


def part_of(path: Path) -> str:
    """The row entry a file belongs to: its package, or itself."""
    inside = path.relative_to(SOURCE)
    return row_entry([*inside.parts[:-1], inside.stem])


def row_entry(names: list[str]) -> str:
    """A module, where it has an entry of its own; otherwise its package."""
    module = ".".join(names[:2])
    return module if any(module in row for row in ARROW) else names[0]


def imports(path: Path) -> Iterator[str]:
    """The parts of Bridle that a file imports when it runs; what only type checkers see is left out."""

    def walk(node: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            yield child
            yield from walk(child)

    for node in walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            module = node.module or ""
            names = [f"bridle.{alias.name}" for alias in node.names] if module == "bridle" else [module]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "bridle":
                part = row_entry([*name.split("."), "__init__"][1:])
                yield part if any(part in row for row in ARROW) else "__init__"


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_no_import_against_the_arrow(path: Path) -> None:
    part = part_of(path)
    assert any(part in row for row in ARROW), f"{part} has no row in ARROW: where does it stand?"
    row = next(k for k, row in enumerate(ARROW) if part in row)
    above = {name for row in ARROW[:row] for name in row}
    allowed = (ONLY.get(part, above) & above) | {part}
    assert set(imports(path)) <= allowed


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_files_stay_small(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LARGER.get(ids(path), LARGEST), "split it, or say in LARGER why not"


def test_exceptions_to_the_size_are_needed() -> None:
    for name, most in LARGER.items():
        assert LARGEST < len((SOURCE / name).read_text(encoding="utf-8").splitlines()) <= most


@pytest.mark.parametrize("path", [p for p in KERNELS if p.parent.name != "border"], ids=ids)
def test_kernels_know_no_python(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("#include"):
            assert "Python" not in line and "nanobind" not in line and "numpy" not in line, line


# ---- public names ---------------------------------------------------------------------------------------------------


def public(module: ModuleType) -> set[str]:
    return {name for name, value in vars(module).items() if not (name.startswith("_") or inspect.ismodule(value))}


def test_all_of_bridle_is_what_is_visible() -> None:
    assert sorted(bridle.__all__) == bridle.__all__
    assert [name for name in bridle.__all__ if getattr(bridle, name) is None] == []  # each is there
    assert set(bridle.__all__) <= set(dir(bridle))
    with pytest.raises(AttributeError, match="has no attribute 'Decodr'"):
        _ = bridle.Decodr  # type: ignore[attr-defined]


def test_what_type_checkers_see_of_bridle_is_what_is_there() -> None:
    """Names are imported when they are used, and listed a second time for type checkers."""
    block = next(
        node for node in ast.parse((SOURCE / "__init__.py").read_text("utf-8")).body if isinstance(node, ast.If)
    )
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    del seen["Any"]
    modules = {name for name, home in seen.items() if home == "bridle"}
    assert {name: home for name, home in seen.items() if home != "bridle"} == bridle._HOME_OF
    assert set(bridle.__all__) == set(seen)
    assert all(getattr(bridle, name) is importlib.import_module(f"bridle.{name}") for name in modules)


@pytest.mark.parametrize("name", [name for name in NAMES if "." in name and not name.endswith("__main__")])
def test_no_module_is_shadowed(name: str) -> None:
    """`import bridle.x.y` gives the module y, not a function or class of that name that bridle.x has too."""
    module, (package, _, last) = importlib.import_module(name), name.rpartition(".")
    assert getattr(importlib.import_module(package), last) is module


def test_all_of_rules_is_what_is_visible() -> None:
    """The functions that make, read and load rules, two classes, and the types of their arguments."""
    functions = {name for name in public(rules) if inspect.isfunction(getattr(rules, name))}
    assert sorted(rules.__all__) == rules.__all__
    assert set(rules.__all__) == functions | {"LabelSpec", "Position", "Rule", "Soft", "Spans"}


def test_the_version_is_written_once() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"] == bridle.__version__
    assert f"## [{bridle.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_public_things_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert path.name == "__main__.py" or ast.get_docstring(tree), "the module"
    things = [node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    bare = [node.name for node in things if not node.name.startswith("_") and not ast.get_docstring(node)]
    assert {thing for thing in bare if not explained(tree, thing)} == set()


def explained(tree: ast.Module, name: str) -> bool:
    """A kind of rule brings its sentence (`text`); an engine (`name`) has a file whose first line describes it."""
    node = next(node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name)
    targets = [target for part in node.body if isinstance(part, ast.Assign) for target in part.targets]
    return isinstance(node, ast.ClassDef) and any(ast.unparse(target) in ("text", "name") for target in targets)


@pytest.mark.parametrize("name", [name for name in bridle.__all__ if inspect.isclass(getattr(bridle, name))])
def test_public_methods_have_docstrings(name: str) -> None:
    parts = {k: v for k, v in vars(getattr(bridle, name)).items() if not k.startswith("_")}
    called = {k for k, v in parts.items() if inspect.isroutine(v) and not isinstance(v, property)}
    assert {k for k in called if not inspect.getdoc(parts[k])} == set()


# ---- NumPy docstrings -----------------------------------------------------------------------------------------------


def documented() -> dict[str, Callable[..., object]]:
    """Public functions, classes, and the methods that these have or inherit from Bridle, by name."""
    result: dict[str, Callable[..., object]] = {}
    for module in (bridle, rules, bridle.learn):
        for thing in (getattr(module, name) for name in module.__all__):
            if inspect.isfunction(thing):
                result[f"{thing.__module__}.{thing.__qualname__}"] = thing
            for kind in inspect.getmro(thing) if inspect.isclass(thing) else ():
                if kind.__module__.startswith("bridle."):
                    methods = {name: getattr(kind, name) for name in vars(kind) if not name.startswith("_")}
                    own = {f".{name}": m for name, m in methods.items() if inspect.isfunction(m) or inspect.ismethod(m)}
                    for name, part in ({"": kind} | own).items():
                        result[f"{kind.__module__}.{kind.__qualname__}{name}"] = part
    return result


def attributes(kind: type) -> set[str]:
    """Return the readable attributes of an object: public fields, properties, and what its methods set."""
    bases = [base for base in inspect.getmro(kind) if base.__module__.startswith("bridle.")]
    parts = [pair for base in bases for pair in vars(base).items()]
    result = {name for name, part in parts if isinstance(part, (property, cached_property))}
    result |= {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    result |= {x.attr for x in ast.walk(tree) if isinstance(x, ast.Attribute) and isinstance(x.ctx, ast.Store)}
    return {name for name in result if not name.startswith("_")}


def sections(thing: object) -> dict[str, list[str]]:
    """The headings of a docstring; of each the names at its margin (`a, b : int` has two)."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}$", inspect.getdoc(thing) or "", flags=re.MULTILINE)[1:]
    margin = [re.findall(r"^([*\w][*\w, ]*)(?: :|$)", text, re.MULTILINE) for text in parts[1::2]]
    names = [[name.strip(" *") for line in lines for name in line.split(",")] for lines in margin]
    return dict(zip(parts[::2], names, strict=True))


@pytest.mark.parametrize("name", documented())
def test_docstrings_name_what_goes_in_and_what_comes_out(name: str) -> None:
    thing = documented()[name]
    if inspect.isclass(thing) and "__init__" not in vars(thing) and not issubclass(thing, tuple):
        return  # it is made as its base is
    signature, result = inspect.signature(thing), sections(thing)
    wanted = [part for part in signature.parameters if part != "self"]
    if (
        inspect.isclass(thing) and "Attributes" in result and "Parameters" not in result
    ):  # users read it, Bridle makes it
        assert result["Attributes"] == wanted or set(result["Attributes"]) == attributes(thing)
    elif wanted:
        assert result.get("Parameters", []) == wanted
    if not inspect.isclass(thing) and signature.return_annotation not in (None, "None"):
        assert "Returns" in result or "Yields" in result


@pytest.mark.parametrize("name", formats())
def test_the_options_of_a_format_are_documented(name: str) -> None:
    kind = type(format_named(name, {}))
    assert sorted(sections(kind)["Parameters"]) == sorted(field.name for field in fields(kind))


# ---- prose that runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name.split(".")[-1] not in ("_native", "__main__")])
def test_doctests(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


# ---- the stub -------------------------------------------------------------------------------------------------------


def test_the_stub_is_up_to_date(tmp_path: Path) -> None:
    if importlib.util.find_spec("nanobind") is None:
        pytest.skip("nanobind is not installed: pip install nanobind")
    built = tmp_path / "_native.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "bridle._native", "-o", str(built)]
    subprocess.run(command, check=True, capture_output=True)
    kept, new = (ast.dump(ast.parse(path.read_text(encoding="utf-8"))) for path in (SOURCE / "_native.pyi", built))
    assert kept == new, "cpp/border has changed: make stub"


def test_the_package_says_that_it_is_typed() -> None:
    installed = Path(bridle.__file__).parent
    assert (installed / "py.typed").exists()
    assert (installed / "_native.pyi").exists()


# ---- the contract suite covers everything ---------------------------------------------------------------------------


def test_the_contract_covers_every_kind_of_rule() -> None:
    assert {kind.__name__ for kind in Rule.kinds} | set(BOOLEAN_KINDS) == set(RULE_KINDS)


def test_the_contract_asks_every_engine() -> None:
    tree = ast.parse(inspect.getsource(examine))
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert {"auto", *engine_names()} <= words


# ---- how far a sentence travels ------------------------------------------------------------------------------------

# What benchmarks/trace.py printed: functions and changes of file on the way of one sentence.
FURTHEST = {"without rules": (156, 113), "with rules": (301, 336)}


def test_a_sentence_does_not_travel_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("trace_of_a_sentence", ROOT / "benchmarks" / "trace.py")
    assert spec is not None and spec.loader is not None
    trace = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, trace)  # where dataclasses look for their module
    spec.loader.exec_module(trace)
    for name, result in trace.traces(tmp_path).items():
        figures = result.figures()
        assert result.by_file["cli/tagging.py"] and figures["functions"] > 50, "it was traced"
        functions, changes = FURTHEST[name]
        output = f"{figures}: python benchmarks/trace.py --list"
        assert figures["functions"] <= functions and figures["changes"] <= changes, output


# ---- tests are found by the name of what they test ------------------------------------------------------------------

PACKAGES = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
# kernels: of _native; project: of documentation, benchmarks and tools; experiments: of the recipes beside src;
# heavy: beside other packages; corpus: files
OTHERS = {"kernels", "project", "experiments", "heavy", "corpus"}
UNDER = {"demo": "project", "torch": "heavy"}  # packages whose tests stand in another folder


def test_folders_of_tests_mirror_the_packages() -> None:
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert folders == (PACKAGES - UNDER.keys()) | OTHERS
