"""Serve a model and its rules over HTTP, with a page for writing rules (`bridle serve`, `bridle explore`)."""

from bridle.extras import needed

for _package in ("msgspec", "starlette", "uvicorn", "httptools"):
    needed(_package, "serve", "the HTTP service needs msgspec, Starlette, uvicorn and httptools")

from bridle.serve.app import create_app  # noqa: E402  (after the check of the packages)
from bridle.serve.limits import Limits  # noqa: E402
from bridle.serve.server import run  # noqa: E402
from bridle.serve.service import RuleText, Service  # noqa: E402

__all__ = ["Limits", "RuleText", "Service", "create_app", "run"]
