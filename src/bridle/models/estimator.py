"""Estimator: scikit-learn's conventions. The constructor only stores settings; they are read and changed by name."""

from __future__ import annotations

import inspect
from typing import Any, Self

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
        from sklearn.utils import InputTags, Tags, TargetTags  # only scikit-learn itself asks

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
            input_tags=InputTags(two_d_array=False, string=True),
        )
