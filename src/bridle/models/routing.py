"""Metadata routing of scikit-learn: which arguments of `fit`, `predict` and `score` go through pipelines and searches.

Without it (scikit-learn's default) a search passes all arguments of its own `fit` on, and a pipeline those that begin
with the name of a step. With `sklearn.set_config(enable_metadata_routing=True)` a model says itself what it wants.
"""

from __future__ import annotations

import inspect
from copy import deepcopy
from typing import Any, Self

from bridle.errors import ModelError, shown
from bridle.extras import needed

_METHODS = ("fit", "predict", "score")


class Routed:
    """What a model asks meta-estimators of scikit-learn for."""

    _metadata_request: Any  # scikit-learn's own name: `clone` copies it

    def get_metadata_routing(self) -> Any:
        """Return what this model asks for. Scikit-learn calls it.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRequest
            For each method, which of its arguments are wanted.
        """
        if hasattr(self, "_metadata_request"):
            return deepcopy(self._metadata_request)
        routing = needed("sklearn.utils.metadata_routing", "sklearn", "metadata routing needs scikit-learn")
        made = routing.MetadataRequest(owner=type(self).__name__)
        for method in _METHODS:
            for name in self._metadata_of(method):
                getattr(made, method).add_request(param=name, alias=None)
        return made

    def set_fit_request(self, **wanted: bool | str | None) -> Self:
        """Say which arguments of `fit` to ask for.

        Parameters
        ----------
        **wanted : bool, str or None
            Arguments by name. True: ask for it. False: do not. None: it is an error to pass it. A string: ask for it
            under this name.

        Returns
        -------
        self
            The same object, so that calls can be chained.

        Raises
        ------
        ModelError
            If `fit` has no such argument.
        """
        return self._ask("fit", wanted)

    def set_predict_request(self, **wanted: bool | str | None) -> Self:
        """Say which arguments of `predict` to ask for, as `set_fit_request` does.

        Parameters
        ----------
        **wanted : bool, str or None
            Arguments by name.

        Returns
        -------
        self
            The same object, so that calls can be chained.

        Raises
        ------
        ModelError
            If `predict` has no such argument.
        """
        return self._ask("predict", wanted)

    def set_score_request(self, **wanted: bool | str | None) -> Self:
        """Say which arguments of `score` to ask for, as `set_fit_request` does.

        Parameters
        ----------
        **wanted : bool, str or None
            Arguments by name.

        Returns
        -------
        self
            The same object, so that calls can be chained.

        Raises
        ------
        ModelError
            If `score` has no such argument.
        """
        return self._ask("score", wanted)

    def _ask(self, method: str, wanted: dict[str, Any]) -> Self:
        known = self._metadata_of(method)
        for name, alias in wanted.items():
            if name not in known:
                raise ModelError(f"{method} has no argument {name!r}", got=shown(alias), wanted=", ".join(known))
        made = self.get_metadata_routing()
        for name, alias in wanted.items():
            getattr(made, method).add_request(param=name, alias=alias)
        self._metadata_request = made
        return self

    @classmethod
    def _metadata_of(cls, method: str) -> list[str]:
        """The arguments of a method besides X and y."""
        parameters = inspect.signature(getattr(cls, method)).parameters.values()
        return [p.name for p in parameters if p.name not in ("self", "X", "y") and p.kind is not p.VAR_KEYWORD]
