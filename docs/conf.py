"""How Sphinx builds these pages: Markdown by MyST, the theme Furo, the pages of rules from the library itself."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

import format_pages
import prose
import rule_pages

import bridle

project = "Bridle"
copyright = "the authors of Bridle, MIT licence"
release = bridle.__version__
html_title = f"Bridle {release}"
html_theme = "furo"
highlight_language = "none"  # an indented block of a docstring is any text
smartquotes = False  # quotation marks in options are meant
html_static_path = ["_static"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
suppress_warnings = ["myst.header"]  # result pages begin their tables at the third level
autodoc_member_order = "bysource"
autodoc_type_aliases = {"npt.ArrayLike": "npt.ArrayLike"}  # not the dozen types that it stands for
autodoc_default_options = {"members": True}


def setup(app: Sphinx) -> None:
    """Write the pages of rules before Sphinx looks for pages; read docstrings as the prose that they are."""
    app.connect("source-read", _formats)
    app.connect("html-page-context", _style)
    app.connect("builder-inited", lambda app: rule_pages.write(Path(app.srcdir) / "rules" / "generated"))
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _plain)


def _formats(_app: Sphinx, name: str, source: list[str]) -> None:
    """The page of formats goes on with what the library says of them."""
    if name == "formats":
        source[0] += format_pages.text()


def _style(app: Sphinx, name: str, *_: object) -> None:
    """Pages of results are wide."""
    if name.startswith("results/"):
        app.add_css_file("results.css")


def _process(_app: Sphinx, _what: str, _name: str, _thing: object, _options: Any, lines: list[str]) -> None:
    lines[:] = prose.to_rst(lines)


def _plain(_app: Sphinx, _what: str, _name: str, _thing: object, _options: Any, *parts: str | None) -> Any:
    """Signature and return type, with aliases as their plain names."""
    return tuple(part and re.sub(r"TypeAliasForwardRef\('([\w.]+)'\)", r"\1", part) for part in parts)
