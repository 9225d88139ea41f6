"""Pipelines that are fit to tables: their steps one after the other, each for its own budget."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import Guarantee

__all__ = ["Steps"]


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a pipeline; the last one is the model, the others change the features for it."""

    changing: tuple[Any, ...]
    model: Any

    @classmethod
    def of(cls, pipeline: Any) -> Steps:
        """Those of a pipeline, but for what passes all through; InvalidParameter for others."""
        found = [step for _, step in pipeline.steps if step is not None and step != "passthrough"]
        for place, step in enumerate(found, start=1):
            needed = "fit_table" if place == len(found) else "through"
            if not callable(getattr(step, needed, None)) or isinstance(step, type):
                raise InvalidParameter(
                    "model",
                    pipeline,
                    expected=f"another step than {type(step).__name__}, which reads rows one by "
                    "one, and these do not leave the engine: steps are RobustScaler and, at last, "
                    "a model that is fit by sums. Or hand the model feature_bounds that "
                    "session.find_bounds finds",
                )
        if not found or pipeline.steps[-1][1] is not found[-1]:
            raise InvalidParameter("model", pipeline, expected="a pipeline that ends in a model")
        return cls(tuple(found[:-1]), found[-1])

    @property
    def budgets(self) -> list[Guarantee]:
        """What each may cost; InvalidParameter for what is none, or of different kinds."""
        found: list[Any] = [getattr(step, "budget", None) for step in (*self.changing, self.model)]
        kinds = {type(budget) for budget in found}
        if len(kinds) > 1 or not isinstance(found[0], Guarantee):
            expected = "guarantees of one kind for all steps, such as unacorda.GDP"
            raise InvalidParameter("budget", tuple(found), expected=expected)
        return found

    def fit_table(self, table: Any) -> None:
        """Fit one after the other, each to what the one before makes of the table."""
        for step in self.changing:
            table = step.fit_table(table).through(table)
        self.model.fit_table(table)
        for step in (*self.changing, self.model)[1:]:
            vars(step).pop("feature_names_in_", None)  # they are asked by numbers alone

    def __copy__(self) -> Steps:
        return Steps(tuple(map(copy.copy, self.changing)), copy.copy(self.model))
