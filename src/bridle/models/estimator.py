"""Estimators by scikit-learn's conventions: settings by name, metadata routing, errors before `fit`, pickling.

The constructor only stores settings. Without metadata routing (scikit-learn's default) a search passes all arguments of
its own `fit` on, and a pipeline those that begin with the name of a step; with
`sklearn.set_config(enable_metadata_routing=True)` a model says itself which arguments it takes.
"""

from __future__ import annotations

import inspect
import sys
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle.errors import ModelError, shown
from bridle.extras import needed


class Estimator:
    """A class that learns; its settings are the arguments of its constructor, kept under the same names."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the settings with their default values."""
        parameters = inspect.signature(cls.__init__).parameters
        return {name: parameter.default for name, parameter in parameters.items() if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name.

        Parameters
        ----------
        deep : bool
            Has no effect; scikit-learn passes it to every estimator.

        Returns
        -------
        dict
            The arguments of the constructor with their current values.

        Examples
        --------
        >>> import bridle
        >>> bridle.CRF(c2=0.1).get_params()["c2"]
        0.1
        """
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Self:
        """Change settings. They take effect at the next `fit`.

        Parameters
        ----------
        **params : object
            Settings by name; those that are not named keep their values.

        Returns
        -------
        self
            The same object, so that calls can be chained.

        Raises
        ------
        ModelError
            If there is no setting of that name.

        Examples
        --------
        >>> import bridle
        >>> bridle.CRF().set_params(c1=0.5, c2=0.01)
        CRF(c1=0.5, c2=0.01)
        """
        known = self._defaults()
        for name, value in params.items():
            if name not in known:
                raise ModelError(f"unknown setting {name!r}", got=shown(value), wanted=", ".join(known))
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = self._defaults()
        changed = (f"{name}={value!r}" for name, value in self.get_params().items() if value is not defaults[name])
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what kind of model this is.

        It is not a "classifier": that is one label per sample there, so folds would be stratified by label, which a
        list of labels per sequence does not allow.
        """
        from sklearn.utils import InputTags, Tags, TargetTags  # only scikit-learn itself asks

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True, multi_output=True, single_output=False),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True, dict=True),
        )


class RoutedEstimator(Estimator):
    """An estimator that tells meta-estimators of scikit-learn which arguments its methods take."""

    _metadata_request: Any  # scikit-learn's own name: `clone` copies it

    def get_metadata_routing(self) -> Any:
        """Return the arguments that this model asks for. Scikit-learn calls it.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRequest
            For each method, which of its arguments are wanted.
        """
        if hasattr(self, "_metadata_request"):
            return deepcopy(self._metadata_request)
        routing = needed("sklearn.utils.metadata_routing", "sklearn", "metadata routing needs scikit-learn")
        request = routing.MetadataRequest(owner=type(self).__name__)
        for method in ("fit", "predict", "score"):
            for name in self._metadata_of(method):
                getattr(request, method).add_request(param=name, alias=None)
        return request

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
        return self._request("fit", wanted)

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
        """
        return self._request("predict", wanted)

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
        """
        return self._request("score", wanted)

    def _request(self, method: str, wanted: dict[str, Any]) -> Self:
        known = self._metadata_of(method)
        request = self.get_metadata_routing()
        for name, alias in wanted.items():
            if name not in known:
                raise ModelError(f"{method} has no argument {name!r}", got=shown(alias), wanted=", ".join(known))
            getattr(request, method).add_request(param=name, alias=alias)
        self._metadata_request = request
        return self

    @classmethod
    def _metadata_of(cls, method: str) -> list[str]:
        """Return the arguments of a method besides X and y."""
        parameters = inspect.signature(getattr(cls, method)).parameters.values()
        return [p.name for p in parameters if p.name not in ("self", "X", "y") and p.kind is not p.VAR_KEYWORD]


class Labellings(list[list[str]]):
    """Labels of many sequences: a list that becomes an array of lists, whatever their lengths.

    So `numpy.concatenate` can put the folds of `cross_val_predict` together.

    >>> np.array(Labellings([["D", "N"], ["N"]])).shape, np.array(Labellings([["D"], ["N"]])).shape
    ((2,), (2,))
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a list of labellings cannot become an array without a copy")
        array = np.empty(len(self), dtype=object)
        array[:] = self[:]
        return array if dtype is None else array.astype(dtype)


def not_fitted(what: str, *, wanted: str = "fit(X, y)") -> ModelError:
    """Return the error of a model that is not trained; if scikit-learn is loaded, also a `NotFittedError` of it."""
    exceptions = sys.modules.get("sklearn.exceptions")
    kind = ModelError if exceptions is None else _both(exceptions.NotFittedError)
    return kind(what, got="no call of fit", wanted=wanted)


@cache
def _both(theirs: type[Exception]) -> type[ModelError]:
    class NotFittedError(ModelError, theirs):  # type: ignore[valid-type, misc]
        """An error of a model that is not trained."""

        def __reduce__(self) -> tuple[Any, ...]:
            return not_fitted, (self.what,), self.__dict__

    return NotFittedError


def pickled(model: Any, fitted: bool) -> tuple[Any, ...]:
    """Return the value of `__reduce__` for a model that saves several files: its parameters and their bytes."""
    data: dict[str, bytes] = {}
    if fitted:
        with TemporaryDirectory() as folder:
            model.save(Path(folder) / "model")
            data = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    return _unpickled, (type(model), model.get_params(), data)


def _unpickled(kind: Any, params: dict[str, Any], data: dict[str, bytes]) -> Any:
    if not data:
        return kind(**params)
    with TemporaryDirectory() as folder:
        for name, content in data.items():
            (Path(folder) / name).write_bytes(content)
        model = kind.load(Path(folder) / "model")
    model.__dict__.update(params)
    return model
