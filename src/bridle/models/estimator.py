"""Estimators by scikit-learn's conventions: settings by name, metadata routing, errors before `fit`, pickling.

The constructor only stores settings. Without metadata routing (scikit-learn's default) a search passes all arguments of
its own `fit` on, and a pipeline those that begin with the name of a step; with
`sklearn.set_config(enable_metadata_routing=True)` a model says itself which arguments it takes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bridle.errors import ModelError, ModelFileError, shown
from bridle.extras import needed
from bridle.models import files


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


def _request_of(method: str) -> Callable[..., Any]:
    """Make the method by which users of scikit-learn say which arguments of a method to ask for."""

    def set_request(self: RoutedEstimator, **wanted: bool | str | None) -> RoutedEstimator:
        return self._request(method, wanted)

    set_request.__name__ = f"set_{method}_request"
    set_request.__qualname__ = f"RoutedEstimator.set_{method}_request"
    set_request.__doc__ = f"""Say which arguments of `{method}` to ask for.

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
            If `{method}` has no such argument.
        """
    return set_request


class RoutedEstimator(Estimator):
    """An estimator that tells meta-estimators of scikit-learn which arguments its methods take."""

    _metadata_request: Any  # scikit-learn's own name: `clone` copies it
    set_fit_request = _request_of("fit")
    set_predict_request = _request_of("predict")
    set_score_request = _request_of("score")

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


class SavedEstimator(Estimator):
    """An estimator with files of its own; it is pickled and copied as their bytes."""

    _kind: ClassVar[str]  # of its files
    _called: ClassVar[str]  # in messages

    def _stored(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the head, which holds the settings, and the arrays for a file."""
        raise NotImplementedError

    def _restore(self, head: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], path: str) -> None:
        """Take over what was learned; raise one of `files.UNFIT` if the parts of the file do not fit together."""
        raise NotImplementedError

    def _check(self) -> None:
        raise NotImplementedError

    def _fitted(self) -> None:
        """Raise `ModelError` if nothing has been learned yet."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write what was learned to a file, under another name first, then renamed.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        self._fitted()
        files.save(path, self._kind, *self._stored())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what was saved.

        Parameters
        ----------
        path : str or Path
            A file that `save` wrote.

        Returns
        -------
        self
            Ready to use.

        Raises
        ------
        ModelFileError
            If the file cannot be read, is damaged, or holds something else.
        """
        return cls._loaded(files.open_file(path), str(path))

    @classmethod
    def _loaded(cls, stored: files.Stored, path: str) -> Self:
        if stored.kind != cls._kind:
            got, wanted = f"the kind {stored.kind!r}", f"what {cls.__name__}.save writes"
            raise ModelFileError(f"the file has no {cls._called}", got=got, wanted=wanted, where=path)
        try:
            estimator = cls(**stored.head["settings"])
            estimator._check()
            estimator._restore(stored.head, stored.arrays, path)
        except files.UNFIT as error:
            raise files.unusable(error, path, cls._called, f"{cls.__name__}.save") from None
        return estimator

    def __reduce__(self) -> tuple[Any, ...]:
        data = files.to_bytes(self._kind, *self._stored()) if hasattr(self, "labels_") else None
        return _unpickled, (type(self), self.get_params(), data)


def _unpickled(kind: type[SavedEstimator], params: dict[str, Any], data: bytes | None) -> SavedEstimator:
    estimator = kind(**params) if data is None else kind._loaded(files.from_bytes(data), "a model in memory")
    estimator.__dict__.update(params)
    return estimator
