"""Serve a model and its rules over HTTP, with a page where rules are written and understood (`bridle serve`)."""

from bridle.extras import needed

for _package in ("msgspec", "starlette", "uvicorn"):
    needed(_package, "serve", "the HTTP service needs msgspec, Starlette and uvicorn")

from bridle.serve.app import create_app  # noqa: E402  (after the packages that it needs are known to be there)
from bridle.serve.limits import Limits  # noqa: E402
from bridle.serve.running import run  # noqa: E402
from bridle.serve.service import Service  # noqa: E402

__all__ = ["Limits", "Service", "create_app", "run"]
