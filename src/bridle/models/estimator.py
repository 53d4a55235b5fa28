"""Estimator: scikit-learn's conventions. The constructor only stores settings; they are read and changed by name."""

from __future__ import annotations

import inspect
import sys
from functools import cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle.errors import ModelError, shown


class Estimator:
    """Something that learns: its settings are the arguments of its constructor, kept under the same names."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The settings, with what they are unless something else is said."""
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
        shown = (f"{name}={value!r}" for name, value in self.get_params().items() if value is not defaults[name])
        return f"{type(self).__name__}({', '.join(shown)})"

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


class Labellings(list[list[str]]):
    """Labels of many sequences: a list that becomes an array of lists, whatever their lengths.

    So `numpy.concatenate` can put the folds of `cross_val_predict` together.

    >>> np.array(Labellings([["D", "N"], ["N"]])).shape, np.array(Labellings([["D"], ["N"]])).shape
    ((2,), (2,))
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a list of labellings cannot become an array without a copy")
        made = np.empty(len(self), dtype=object)
        made[:] = self[:]
        return made if dtype is None else made.astype(dtype)


def not_fitted(what: str, *, wanted: str = "fit(X, y)") -> ModelError:
    """The error of a model that is not trained; where scikit-learn is loaded, it is a `NotFittedError` of it too."""
    exceptions = sys.modules.get("sklearn.exceptions")
    kind = ModelError if exceptions is None else _both(exceptions.NotFittedError)
    return kind(what, got="no call of fit", wanted=wanted)


@cache
def _both(theirs: type[Exception]) -> type[ModelError]:
    class NotFittedError(ModelError, theirs):  # type: ignore[valid-type, misc]
        """A model that is not trained."""

        def __reduce__(self) -> tuple[Any, ...]:
            return not_fitted, (self.what,), self.__dict__

    return NotFittedError
