"""The table of a fitted regression: text for people, a frame for programs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from unacorda.extras import require
from unacorda.inference.records import Floats
from unacorda.privacy.guarantees import Guarantee

__all__ = ["Summary"]

_COLUMNS = ("coef", "std err", "sampling", "privacy", "z", "P>|z|")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Summary:
    """Coefficients with errors in two parts, z, p and intervals; all of it may be published.

    values, sampling_errors, privacy_errors: one number a parameter, the intercept first;
    intervals: one row (lower, upper) each; diagnostics: named numbers, released ones too; protects:
    what the noise hides; cannot: why intervals are infinite, where they are.

    >>> import unacorda
    >>> table = Summary(
    ...     title="Fit",
    ...     names=["intercept"],
    ...     values=np.array([2.0]),
    ...     sampling_errors=np.array([0.3]),
    ...     privacy_errors=np.array([0.4]),
    ...     intervals=np.array([[1.02, 2.98]]),
    ...     confidence=0.95,
    ...     guarantee=unacorda.GDP(1),
    ...     diagnostics={"rows": 100.0},
    ... )
    >>> print(table)
    Fit
    spent  GDP(mu=1.0), one row replaced
    rows   100
    -----------------------------------------------------------------------------------------
                   coef   std err  sampling   privacy         z     P>|z|      [95%         ]
    intercept         2       0.5       0.3       0.4         4   6.3e-05      1.02      2.98
    -----------------------------------------------------------------------------------------
    """

    title: str
    names: list[str]
    values: Floats
    sampling_errors: Floats
    privacy_errors: Floats
    intervals: Floats
    confidence: float
    guarantee: Guarantee
    diagnostics: dict[str, float]
    protects: str = "one row replaced"
    cannot: tuple[str, ...] = ()

    @property
    def standard_errors(self) -> Floats:
        """The roots of the sums of both squares."""
        return np.asarray(np.hypot(self.sampling_errors, self.privacy_errors))

    @property
    def z(self) -> Floats:
        """Each coefficient over its standard error; NaN where there is none."""
        errors = self.standard_errors
        return np.where(np.isfinite(errors), self.values / errors, math.nan)

    @property
    def p_values(self) -> Floats:
        """How likely a coefficient this far from 0 is if the true one is 0, both sides."""
        return np.asarray(2 * ndtr(-np.abs(self.z)))

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary a parameter."""
        numbers = np.column_stack([self._numbers(), self.intervals]).tolist()
        keys = (*_COLUMNS, "lower", "upper")
        return [
            {"name": name, **dict(zip(keys, row, strict=True))}
            for name, row in zip(self.names, numbers, strict=True)
        ]

    def to_pandas(self) -> Any:
        """A data frame, one row a parameter; MissingExtra without pandas."""
        pandas = require("pandas", extra="frames")
        return pandas.DataFrame(self.to_dicts()).set_index("name")

    def _numbers(self) -> Floats:
        return np.column_stack(
            [
                self.values,
                self.standard_errors,
                self.sampling_errors,
                self.privacy_errors,
                self.z,
                self.p_values,
            ]
        )

    def __str__(self) -> str:
        wide = max(9, *(len(name) for name in self.names))
        facts = {"spent": f"{self.guarantee}, {self.protects}"}
        facts |= {name: f"{value:.4g}" for name, value in self.diagnostics.items()}
        left = max(len(name) for name in facts)
        line = "-" * (wide + 10 * 8)
        percent = f"[{100 * self.confidence:g}%"
        head = "".join(f"{name:>10}" for name in (*_COLUMNS, percent, "]"))
        body = [
            f"{name:<{wide}}" + "".join(_cell(number) for number in [*numbers, *interval])
            for name, numbers, interval in zip(
                self.names, self._numbers().tolist(), self.intervals.tolist(), strict=True
            )
        ]
        told = [f"{name:<{left}}  {text}" for name, text in facts.items()]
        why = [f"cannot tell errors: {reason}" for reason in self.cannot]
        return "\n".join([self.title, *told, line, " " * wide + head, *body, line, *why])

    __repr__ = __str__


def _cell(number: float) -> str:
    if math.isnan(number):
        return f"{'-':>10}"
    return f"{number:>10.4g}" if 1e-4 <= abs(number) < 1e5 else f"{number:>10.2g}"
