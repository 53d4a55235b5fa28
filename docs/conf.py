"""Configuration of Sphinx: Markdown by MyST, docstrings by numpydoc, the theme Furo, rules by the library."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

import bridle

project = "Bridle"
copyright = "the authors of Bridle, MIT licence"
release = bridle.__version__
html_title = f"Bridle {release}"
html_theme = "furo"
highlight_language = "none"  # a literal block of a docstring is any text
default_role = "py:obj"  # names in single backquotes: a link where there is something to link to
smartquotes = False  # quotation marks in options are meant
html_static_path = ["_static"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
numpydoc_show_class_members = False  # autodoc lists them, with their docstrings
myst_heading_anchors = 3
exclude_patterns = ["_build"]
suppress_warnings = ["myst.header"]  # result pages begin their tables at the third level
autodoc_member_order = "bysource"
autodoc_type_aliases = {  # not the dozen types that they stand for
    name: name for name in ("npt.ArrayLike", "LabelSpec", "Position", "Spans", "Labelling")
}
autodoc_default_options = {"members": True}
autodoc_mock_imports = ["transformers", "torch", "spacy", "thinc"]  # what integrations derive from; not installed here


def setup(app: Sphinx) -> None:
    """Connect what this file adds to Sphinx."""
    app.connect("html-page-context", _style)
    app.connect("autodoc-process-signature", _plain)


def _style(app: Sphinx, name: str, *_: object) -> None:
    """Pages of results are wide."""
    if name.startswith("results/"):
        app.add_css_file("results.css")


def _plain(_app: Sphinx, _what: str, _name: str, _thing: object, _options: Any, *parts: str | None) -> Any:
    """Signature and return type, with aliases as their plain names."""
    return tuple(part and re.sub(r"TypeAliasForwardRef\('([\w.]+)'\)", r"\1", part) for part in parts)
