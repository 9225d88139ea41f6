"""Shares of categories whose owners trust nobody: each device randomises its own."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from unacorda import checks, elements
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.inference.budgets import check_budget
from unacorda.inference.local_reports import (
    NoisyCategories,
    local_epsilon,
    noise_multiplier,
    takes_normal_noise,
)
from unacorda.mechanisms.response.categorical import RandomizedResponse
from unacorda.mechanisms.response.frequencies import Frequencies, FrequencyOracle
from unacorda.mechanisms.response.hadamard import HadamardResponse
from unacorda.mechanisms.response.hashing import LocalHashing
from unacorda.mechanisms.response.subsets import SubsetSelection
from unacorda.mechanisms.response.thresholds import MOST_ANSWERS, MOST_CATEGORIES
from unacorda.mechanisms.response.unary import UnaryEncoding
from unacorda.privacy.guarantees import Guarantee

__all__ = ["CategoryReports", "frequency_randomizer", "local_frequencies"]

CategoryReports: TypeAlias = FrequencyOracle | NoisyCategories
"""How a device reports a category: `encode`; and how the server reads reports: `aggregate`."""


def frequency_randomizer(
    *, categories: int, budget: Guarantee, most_bytes: int = 1024
) -> CategoryReports:
    """How each device reports its category, by the least total variance of all shares.

    categories: how many, 2 or more; budget: any guarantee, kept for each report by itself, under
    the replacement of its category by any other; most_bytes: how long a report may be. Of k-ary
    randomised response, both unary encodings, subset selection, Hadamard response, hashing and,
    where the budget allows it, normal noise on all categories. Equal ones: the one named first.
    A device calls `encode(value)`, the server `aggregate(reports)`.
    Raises InvalidParameter for arguments that cannot be used.
    Source: Wang, Blocki, Li, Jha 2017 (USENIX Security); Ye and Barg 2018, arXiv:1702.00610.

    >>> import unacorda
    >>> for categories, budget in (
    ...     (4, unacorda.PureDP(3)),
    ...     (50, unacorda.PureDP(1)),
    ...     (50, unacorda.GDP(1)),
    ... ):
    ...     print(type(frequency_randomizer(categories=categories, budget=budget)).__name__)
    RandomizedResponse
    SubsetSelection
    NoisyCategories
    """
    k = checks.positive_integer(categories=categories)
    if not 2 <= k <= MOST_CATEGORIES:
        raise InvalidParameter("categories", categories, expected=f"from 2 to {MOST_CATEGORIES}")
    most, checked = checks.positive_integer(most_bytes=most_bytes), check_budget(budget)
    given: dict[str, Any] = {"epsilon": local_epsilon(checked), "categories": k}
    packed = -(-k // 8)
    kinds: list[tuple[int, Callable[..., CategoryReports]]] = [
        (8 if k <= MOST_ANSWERS else most + 1, RandomizedResponse),
        (8, HadamardResponse),
        (24, LocalHashing),
        (packed, SubsetSelection),
        (packed, UnaryEncoding),
        (packed, partial(UnaryEncoding, variant="symmetric")),
    ]
    found: list[CategoryReports] = []
    for size, kind in kinds:
        if size <= most:
            try:
                found.append(kind(**given))
            except InvalidParameter as error:
                if error.argument != "epsilon":
                    raise
    if takes_normal_noise(checked) and 8 * k <= most:
        found.append(NoisyCategories(categories=k, noise_multiplier=noise_multiplier(checked)))
    if not found:
        raise InvalidParameter(
            "budget", checked, expected=f"a larger one, or most_bytes={most} larger: no report fits"
        )
    # Shares of 1 / k add up to the total variance of all shares, times k.
    return min(found, key=lambda reports: reports.variance(count=1, frequency=f"1/{k}"))


def local_frequencies(
    x: ArrayLike,
    *,
    categories: int,
    budget: Guarantee,
    most_bytes: int = 1024,
    bits: RandomBits | None = None,
) -> Frequencies:
    """Shares of all categories by reports of their owners, with errors and intervals.

    x: one category a person, integers from 0 to categories - 1; those beyond count as the nearest.
    Each is randomised by itself, by `frequency_randomizer`, as her own device would. budget: any
    guarantee, kept for each person whatever becomes of her report. Estimates are unbiased, so that
    some lie below 0; `interval()` has ends that cover, `on_simplex()` the nearest shares.
    Raises InvalidParameter for arguments that cannot be used.

    >>> import numpy as np
    >>> import unacorda
    >>> answers = np.repeat([0, 1, 2], [6000, 3000, 1000])
    >>> shares = local_frequencies(
    ...     answers, categories=3, budget=unacorda.PureDP(2), bits=unacorda.SeededBits(1)
    ... )
    >>> bool(np.abs(shares.values - [0.6, 0.3, 0.1]).max() < 0.05)
    True
    """
    reports = frequency_randomizer(categories=categories, budget=budget, most_bytes=most_bytes)
    expected = "integers: indices of categories"
    given = elements.integers("x", x, dimensions=1, expected=expected)
    if given.ndim != 1 or given.size == 0:
        raise InvalidParameter("x", given.shape, expected="one dimension, of 1 or more integers")
    return reports.aggregate(reports.encode(given, bits=source_of(bits)))
