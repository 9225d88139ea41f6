"""The law of each kind of report on a small domain, written out in fractions, and checkers."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
from mpmath import iv, mp, mpf
from numpy.typing import NDArray
from scipy import linalg, stats

from unacorda.bits import RandomBits
from unacorda.mechanisms.local.categories import RandomizedResponse, SubsetSelection, UnaryEncoding
from unacorda.mechanisms.local.frequencies import FrequencyOracle, PureOracle
from unacorda.mechanisms.local.hashing import HadamardResponse

Law = Mapping[Hashable, Fraction]
"""The probability of every report; reports are integers or tuples of packed bytes."""

WHOLE = 1 << 64
RAPPOR = partial(UnaryEncoding, variant="symmetric")
KINDS: dict[str, Callable[..., FrequencyOracle]] = {
    "randomised response": RandomizedResponse,
    "rappor": RAPPOR,
    "oue": UnaryEncoding,
    "subsets": SubsetSelection,
    "hadamard": HadamardResponse,
}


def law(mechanism: FrequencyOracle, value: int) -> Law:
    """The law of one report, from the definition in the mechanism's docstring."""
    k = mechanism.categories
    if isinstance(mechanism, HadamardResponse):
        return _hadamard_law(mechanism, value)
    assert isinstance(mechanism, PureOracle)
    own, other = mechanism.support
    if isinstance(mechanism, RandomizedResponse):
        return {told: own if told == value else other for told in range(k)}
    if isinstance(mechanism, SubsetSelection):
        size = mechanism.size
        return {
            pack([index in named for index in range(k)]): (
                own / comb(k - 1, size - 1) if value in named else (1 - own) / comb(k - 1, size)
            )
            for named in combinations(range(k), size)
        }
    return unary_law([own if index == value else other for index in range(k)])


def unary_law(ones: Sequence[Fraction]) -> Law:
    """The law of independent bits, given the probability that each is 1."""
    found: dict[Hashable, Fraction] = {}
    for bits in product((0, 1), repeat=len(ones)):
        mass = Fraction(1)
        for bit, one in zip(bits, ones, strict=True):
            mass *= one if bit else 1 - one
        found[pack(bits)] = mass
    return found


def _hadamard_law(mechanism: HadamardResponse, value: int) -> Law:
    signs = linalg.hadamard(mechanism.block)
    home, row = divmod(value, mechanism.block - 1)
    answer = mechanism.half_blocks
    found: dict[Hashable, Fraction] = {}
    for symbol in range(mechanism.symbols):
        block, place = divmod(symbol, mechanism.block)
        true = block == home and signs[row + 1, place] == 1
        found[symbol] = Fraction(answer.truth if true else answer.lie, WHOLE * mechanism.block // 2)
    return found


def pack(bits: Iterable[Any]) -> tuple[int, ...]:
    return tuple(np.packbits(np.array(list(bits), dtype=np.uint8)).tolist())


def keys(reports: NDArray[Any], *, packed: bool) -> list[Hashable]:
    """Reports as they stand in a law."""
    return [tuple(row) for row in reports.tolist()] if packed else reports.tolist()


def chi_square(reports: list[Hashable], expected: Law) -> float:
    """The p-value of reports under a law; 0 where one is impossible."""
    counts = dict.fromkeys(expected, 0)
    for report in reports:
        if report not in counts:
            return 0.0
        counts[report] += 1
    masses = np.array([float(mass) for mass in expected.values()]) * len(reports)
    seen = np.array(list(counts.values()), dtype=float)
    rare = masses < 10
    masses = np.append(masses[~rare], masses[rare].sum() + 1e-9)
    seen = np.append(seen[~rare], seen[rare].sum())
    return float(stats.chi2.sf(((seen - masses) ** 2 / masses).sum(), max(len(seen) - 2, 1)))


def worst_ratio(laws: Sequence[Law]) -> Fraction:
    """The largest ratio of the probabilities of one report for two inputs."""
    return max(
        first[report] / second[report] for first in laws for second in laws for report in first
    )


def at_most_exp(ratio: Fraction, epsilon: Fraction) -> bool:
    """Whether ratio <= e^epsilon, decided by interval arithmetic of 400 bits."""
    before, iv.prec = iv.prec, 400
    try:
        bound = iv.exp(iv.mpf(epsilon.numerator) / epsilon.denominator)
        left = iv.mpf(ratio.numerator) / ratio.denominator
        assert left.b <= bound.a or left.a > bound.b  # never too near to tell
        return bool(left.b <= bound.a)
    finally:
        iv.prec = before


def shortfall(ratio: Fraction, epsilon: Fraction) -> float:
    """1 - ratio / e^epsilon, to double precision, however small."""
    with mp.workprec(400):
        exact = mp.exp(mpf(epsilon.numerator) / epsilon.denominator)
        return float(1 - mpf(ratio.numerator) / ratio.denominator / exact)


def hockey_stick(first: Law, second: Law, factor: float) -> float:
    """The sum over reports of (first - factor second)^+."""
    return float(
        sum(max(float(first[report]) - factor * float(second[report]), 0.0) for report in first)
    )


def means(mechanism: FrequencyOracle, expected: Law) -> NDArray[np.float64]:
    """The mean of the estimates made of one report of this law."""
    return np.asarray(sum(estimates(mechanism, one) * float(expected[one]) for one in expected))


def squares(mechanism: FrequencyOracle, expected: Law) -> NDArray[np.float64]:
    """The mean square of the estimates made of one report of this law."""
    return np.asarray(
        sum(estimates(mechanism, one) ** 2 * float(expected[one]) for one in expected)
    )


def estimates(mechanism: FrequencyOracle, report: Hashable) -> NDArray[np.float64]:
    """The estimated shares where this is the only report."""
    return mechanism.aggregate(array_of([report])).values


def array_of(reports: Sequence[Hashable]) -> NDArray[Any]:
    packed = isinstance(reports[0], tuple)
    return np.array(reports, dtype=np.uint8 if packed else np.int64)


class Counting:
    """A source that remembers what it gave."""

    def __init__(self, source: RandomBits) -> None:
        self._source, self.given = source, np.empty(0, dtype=np.uint64)

    @property
    def secure(self) -> bool:
        return False

    def words(self, count: int) -> NDArray[np.uint64]:
        drawn = self._source.words(count)
        self.given = np.concatenate([self.given, drawn])
        return drawn

    def below(self, bound: int) -> int:
        return self._source.below(bound)
