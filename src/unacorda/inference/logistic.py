r"""Logistic regression by noisy Newton steps."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from unacorda.bits import RandomBits, source_of
from unacorda.inference.budgets import check_budget, gdp_budget
from unacorda.inference.contract import BaseEstimator
from unacorda.inference.designs import Scaling, scaling
from unacorda.inference.fitted import Intervals
from unacorda.inference.inputs import features, labels, weighed
from unacorda.inference.losses import Logistic
from unacorda.inference.newton import Newton, Start, trail
from unacorda.inference.noisy_sums import NoisySums
from unacorda.inference.people import Arrays
from unacorda.inference.plans import Budgeting
from unacorda.inference.predictors import TwoClasses, second_class, two_classes
from unacorda.inference.row_values import Source
from unacorda.inference.table_people import open_table
from unacorda.inference.tables import Table, table_scaling
from unacorda.privacy.guarantees import Guarantee

__all__ = ["LogisticRegression"]

_GROWTHS: Final = [(Fraction(3), 5), (Fraction(2), 5)]

_TYPICAL: Final = 0.15
"""About p (1 - p) times the weight of a person."""


class LogisticRegression(Intervals, TwoClasses, BaseEstimator):  # type: ignore[misc]
    r"""Logistic regression with valid intervals, private under replacement of one row.

    budget: any guarantee that normal noise keeps, spent whole by each fit; feature_bounds: public
    (lower, upper), each one number or one a feature, where most values lie; nothing is cut at
    them. classes: the two labels, public; the probability is that of the second. bits: leave it
    out; SeededBits makes a fit reproducible, and not private.

    After fit: classes_, coef_ (1 x p), intercept_ (one number in an array), sampling_error_ and
    privacy_error_ (of the intercept, then the coefficients), covariance_, event_, guarantee_,
    diagnostics_. Rows with a feature that is not finite, or with another label, have weight 0.
    Where features separate the classes there is no estimate: the released curvature vanishes, and
    intervals are infinite. Errors name what is public alone, as for `LinearRegression`.
    Source: Avella-Medina, Bradshaw, Loh 2023, arXiv:2103.11003 (noisy Newton); Kunsch, Stefanski,
    Carroll 1989 (weights by the features alone keep the estimate consistent);
    docs/proofs/regression.md.

    >>> import unacorda
    >>> drawn = np.random.default_rng(1)
    >>> X = drawn.normal(size=(5000, 2))
    >>> y = drawn.random(5000) < 1 / (1 + np.exp(-X @ [1.0, -1.0]))
    >>> model = LogisticRegression(
    ...     budget=unacorda.GDP(1), feature_bounds=(-3, 3), bits=unacorda.SeededBits(1)
    ... ).fit(X, y)
    >>> model.coef_.shape, bool(abs(model.coef_ - [1, -1]).max() < 0.2)
    ((1, 2), True)
    """

    def __init__(
        self,
        *,
        budget: Guarantee,
        feature_bounds: tuple[ArrayLike, ArrayLike] | None = None,
        classes: tuple[Any, Any] = (0, 1),
        bits: RandomBits | None = None,
    ) -> None:
        self.budget = budget
        self.feature_bounds = feature_bounds
        self.classes = classes
        self.bits = bits

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> LogisticRegression:
        """Fit to one row a person, X n x p and y of n labels; spends the budget.

        sample_weight: as for `MEstimator.fit`.
        """
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        classes = two_classes(self.classes)
        x = features(self, X, reset=True)
        target, known = labels(y, classes, rows=len(x))
        counts = weighed(known * np.isfinite(x).all(axis=1), sample_weight)
        sums = NoisySums(rows=len(x), budget=budget, bits=source_of(self.bits))
        weighted = sample_weight is not None
        source = Arrays(x=x, target=target, counts=counts, sums=sums, weighted=weighted)
        scales = scaling(self.feature_bounds, features=x.shape[1])
        self._fit(source, asked, scales, classes)
        return self

    def fit_table(self, table: Table) -> LogisticRegression:
        """Fit to a table of a session, which hands it in: see `unacorda.Session.fit`.

        Its target is a number or a condition, so that the classes are numbers.
        """
        asked, budget = check_budget(self.budget), gdp_budget(self.budget)
        classes = two_classes(self.classes)
        target = second_class(classes)
        scales = table_scaling(self.feature_bounds, table)
        source = open_table(self, table, budget=budget, target=target)
        self._fit(source, asked, scales, classes)
        return self

    def _fit(self, source: Source, asked: Guarantee, scales: Scaling, classes: Any) -> None:
        budgeting = Budgeting.of(source, asked, size=scales.size)
        gram = budgeting.matrix(trace_bound=scales.size, norm=0.01, most=Fraction(8, 100))
        plan = trail(
            budgeting,
            Logistic(),
            spent=gram + source.spent,
            typical=_TYPICAL,
            growths=_GROWTHS,
            known_start=True,
        )
        people = source.whitened(scales, share=gram)
        newton = Newton(people=people, loss=Logistic(), least=0.01)
        theta, errors = newton.run(plan, Start(theta=np.zeros(scales.size), curvature=0.2))
        parameters = self._tell(people, theta, errors, asked=asked, steps=plan.steps)
        self.classes_ = classes
        self.intercept_, self.coef_ = parameters[:1], parameters[None, 1:]
