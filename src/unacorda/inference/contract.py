"""The names of scikit-learn that estimators use; MissingExtra where it is not installed."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
from typing import Any

from unacorda.extras import require

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "ClassifierMixin",
    "DataConversionWarning",
    "OneToOneFeatureMixin",
    "Pipeline",
    "RegressorMixin",
    "SharedBits",
    "TransformerMixin",
    "available_if",
    "check_is_fitted",
    "clone",
    "get_tags",
    "validate_data",
]

_base: Any = require("sklearn.base", extra="inference")
_metaestimators: Any = require("sklearn.utils.metaestimators", extra="inference")
_pipeline: Any = require("sklearn.pipeline", extra="inference")
_utils: Any = require("sklearn.utils", extra="inference")
_validation: Any = require("sklearn.utils.validation", extra="inference")
_exceptions: Any = require("sklearn.exceptions", extra="inference")

BaseEstimator: Any = _base.BaseEstimator
ClassNamePrefixFeaturesOutMixin: Any = _base.ClassNamePrefixFeaturesOutMixin
ClassifierMixin: Any = _base.ClassifierMixin
OneToOneFeatureMixin: Any = _base.OneToOneFeatureMixin
Pipeline: Any = _pipeline.Pipeline
RegressorMixin: Any = _base.RegressorMixin
TransformerMixin: Any = _base.TransformerMixin
DataConversionWarning: Any = _exceptions.DataConversionWarning
available_if: Any = _metaestimators.available_if
clone: Any = _base.clone
get_tags: Any = _utils.get_tags
check_is_fitted: Any = _validation.check_is_fitted
validate_data: Any = _validation.validate_data


class SharedBits:
    """Cloning of estimators that share their bits."""

    def __sklearn_clone__(self) -> Any:
        """An unfitted copy; seeded bits are shared, since a stream of them cannot be copied."""
        given: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        return type(self)(**{name: _copied(name, value) for name, value in given.items()})


def _copied(name: str, value: Any) -> Any:
    if name == "bits":
        return value
    return clone(value) if hasattr(value, "get_params") else copy.deepcopy(value)
