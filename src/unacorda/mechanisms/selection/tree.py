r"""Selection by low-sensitivity questions only, by a walk down a tree over the candidates.

The candidates are the leaves of a tree of `branching` children a node, b = 2, 4, 8 or 16. At a
node with best scores m_1, ..., m_b below its children, normal noise is added to the b - 1 contrasts

    w_j = (1/b) sum over c of H_jc m_c,

with H the Hadamard matrix without its row of ones. The walk continues to the child with the largest
sum over j of H_jc w_j, which is m_c minus the mean of all, with noise. For b = 2 the one contrast
is (m_1 - m_2) / 2.

**Privacy.** Every m_c moves by at most Delta, so the contrasts move by at most Delta in the l2
norm: the square of that is (1/b) times that of the centred moves, at most (1/b) b Delta^2
(monotone: at most (1/b) (b/4) Delta^2, so Delta / 2). The walk asks k = ceil(log_b n) such
vectors, each with noise N(0, k M^2 Delta^2), monotone of half the deviation, and each chosen by
the answers before. That composes to one normal release of noise multiplier M, exactly, also if
chosen adaptively: the event is `Gaussian(noise_multiplier=M)`, 1 / (2 M^2) in zCDP, whatever the
number of candidates. All noisy contrasts may be released: the trace.

**Utility.** At b = 2, Delta = M = 1 the expected shortfall of the chosen score is at most
0.34 k^{3/2}, reached where each wrong turn, at any level, costs the same; the exponential mechanism
at the same price stays within 0.7 k. Whether questions of low sensitivity alone can do as well is
an open problem. A random order of the leaves, which is public, helps against scores that follow
the tree. benchmarks/selection.py has the figures.

Source: Steinke 2019, "Open problem: private selection by low-sensitivity queries"
(differentialprivacy.org); contrasts and their sensitivity: derived here.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.bits import RandomBits, source_of
from unacorda.checks import Number
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.additive.real import Gaussian
from unacorda.mechanisms.noise.continuous import gaussian_chunk
from unacorda.mechanisms.noise.rounding import float_multiples, grid_ratio
from unacorda.mechanisms.selection.scores import Real, exact_score, one_row, walk_loss
from unacorda.privacy import events
from unacorda.privacy.events import fields
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP
from unacorda.privacy.rounding import root_up

_BRANCHINGS: Final = (2, 4, 8, 16)
_REACH: Final = Fraction(1 << 800)  # the noise has a grid


@dataclass(frozen=True, slots=True, eq=False)
class TreeTrace:
    """A walk from the root of the tree to a leaf. All of it is released.

    Attributes
    ----------
    choice
        The index of the candidate.
    path
        The child taken at each level.
    contrasts
        The noisy contrasts at each level; empty at a node with one child.
    order
        The candidates in the order of the leaves; None if they were not shuffled.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> walk = TreeSelection(noise_multiplier=1, sensitivity=1)
    >>> trace = walk.release_with_trace([0, 0, 100, 50], bits=SeededBits(1))
    >>> trace.choice, trace.path
    (2, (1, 0))
    """

    choice: int
    path: tuple[int, ...]
    contrasts: tuple[tuple[float, ...], ...]
    order: NDArray[np.int64] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSelection:
    """Choose a candidate of large score by normal noise on questions of low sensitivity.

    To minimize losses, give their negatives.

    Source: Steinke 2019; the module.

    Parameters
    ----------
    noise_multiplier
        The noise multiplier M of the whole walk, above 0.
    sensitivity
        The sensitivity of one score, above 0.
    branching
        The number of children of a node: 2, 4, 8 or 16.
    shuffle
        Put the leaves in a random, public order that is independent of the data.
    monotone
        As for `Exponential`; it halves the noise.

    Examples
    --------
    >>> from unacorda.bits import SeededBits
    >>> walk = TreeSelection(noise_multiplier=1, sensitivity=1)
    >>> walk.event
    Gaussian(noise_multiplier=1)
    >>> walk.release([0, 0, 100, 50], bits=SeededBits(1))
    2
    """

    noise_multiplier: Real
    sensitivity: Real
    branching: int = 2
    shuffle: bool = False
    monotone: bool = False

    def __post_init__(self) -> None:
        fields.keep(
            self,
            noise_multiplier=fields.positive("noise_multiplier", self.noise_multiplier),
            sensitivity=fields.positive("sensitivity", self.sensitivity),
        )
        product = checks.exact("noise_multiplier", self.noise_multiplier)
        product *= checks.exact("sensitivity", self.sensitivity)
        if not 1 / _REACH <= product <= _REACH:
            raise InvalidParameter(
                "noise_multiplier",
                self.noise_multiplier,
                expected="noise_multiplier x sensitivity between 2^-800 and 2^800",
            )
        if self.branching not in _BRANCHINGS:
            raise InvalidParameter("branching", self.branching, expected="2, 4, 8 or 16")
        checks.boolean(shuffle=self.shuffle, monotone=self.monotone)

    @classmethod
    def for_guarantee(
        cls,
        guarantee: GDP | ZCDP | ApproxDP,
        *,
        sensitivity: Real,
        branching: int = 2,
        shuffle: bool = False,
        monotone: bool = False,
    ) -> Self:
        """Make the walk with the least noise that keeps a guarantee, as `Gaussian.for_guarantee`.

        Parameters
        ----------
        guarantee
            A GDP, ZCDP or ApproxDP.
        sensitivity, branching, shuffle, monotone
            As for the class.

        Returns
        -------
        TreeSelection
            The mechanism.

        Raises
        ------
        InvalidParameter
            For another guarantee.
        """
        return cls(
            noise_multiplier=Gaussian.for_guarantee(guarantee, l2_sensitivity=1).sigma,
            sensitivity=sensitivity,
            branching=branching,
            shuffle=shuffle,
            monotone=monotone,
        )

    @property
    def event(self) -> events.Gaussian:
        """What one release costs, trace included."""
        return events.Gaussian(noise_multiplier=self.noise_multiplier)

    def depth(self, candidates: int) -> int:
        """Compute the number of levels of questions.

        Parameters
        ----------
        candidates
            The number of candidates, 1 or more.

        Returns
        -------
        int
            0 for a single candidate.
        """
        levels, reached = 0, 1
        while reached < checks.positive_integer(candidates=candidates):
            levels, reached = levels + 1, reached * self.branching
        return levels

    def sigma(self, candidates: int) -> float:
        """Compute the standard deviation of the noise on each contrast.

        Parameters
        ----------
        candidates
            The number of candidates, 1 or more.

        Returns
        -------
        float
            Rounded up; 0 for a single candidate.
        """
        moved = checks.exact("sensitivity", self.sensitivity) / (2 if self.monotone else 1)
        multiplier = checks.exact("noise_multiplier", self.noise_multiplier)
        return root_up(self.depth(candidates) * (multiplier * moved) ** 2)

    def release(
        self, scores: ArrayLike | Sequence[Fraction], *, bits: RandomBits | None = None
    ) -> int:
        """Choose a candidate.

        Parameters
        ----------
        scores
            As for `Exponential.release`.
        bits
            By default a secure source.

        Returns
        -------
        int
            Its index.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        return self.release_with_trace(scores, bits=bits).choice

    def release_with_trace(
        self, scores: ArrayLike | Sequence[Fraction], *, bits: RandomBits | None = None
    ) -> TreeTrace:
        """Choose a candidate, and release the whole walk at no further cost.

        Parameters
        ----------
        scores, bits
            As for `release`.

        Returns
        -------
        TreeTrace
            The choice and the noisy contrasts on the path to it.

        Raises
        ------
        InvalidParameter
            For another shape or dtype.
        """
        row = one_row(scores)
        source = source_of(bits)
        order = _random_order(row.size, source) if self.shuffle else None
        levels = [row if order is None else row[order]]
        while levels[-1].size > 1:
            levels.append(_best_of_groups(levels[-1], self.branching))
        sigma = self.sigma(row.size)
        place, path, released = 0, [], []
        for children in reversed(levels[:-1]):
            first = place * self.branching
            known = [exact_score(m) for m in children[first : first + self.branching]]
            child, contrasts = self._ask(known, sigma, source) if len(known) > 1 else (0, ())
            path.append(child)
            released.append(contrasts)
            place = first + child
        choice = place if order is None else int(order[place])
        return TreeTrace(choice, tuple(path), tuple(released), order)

    def error_bound(self, confidence: Number, *, candidates: int) -> float:
        """Bound how far the chosen score is below the best score.

        For 2^k candidates and a branching of 2 it is tight to about a hundredth.

        Source: docs/proofs/noisy_max.md, section 5.

        Parameters
        ----------
        confidence
            The bound holds with this probability or more, for all scores.
        candidates
            The number of candidates, 1 or more.

        Returns
        -------
        float
            In the unit of the scores, rounded up.

        Raises
        ------
        InvalidParameter
            For a confidence out of its range.

        Examples
        --------
        >>> walk = TreeSelection(noise_multiplier=1, sensitivity=1)
        >>> round(walk.error_bound(0.95, candidates=1024), 1)
        27.0
        """
        sigma, levels = self.sigma(candidates), self.depth(candidates)
        if not levels:
            sigma = 1.0
        grid, _ = grid_ratio("noise_multiplier", sigma, None)
        # Half a step on each of the contrasts in which two children differ.
        rounding = self.branching * Fraction(2) ** (grid - 1)
        return walk_loss(
            sigma,
            rounding,
            confidence=confidence,
            levels=levels,
            branching=self.branching,
            candidates=candidates,
        )

    def _ask(
        self, known: list[Fraction], sigma: float, bits: RandomBits
    ) -> tuple[int, tuple[float, ...]]:
        """The child of largest noisy score, and the noisy contrasts."""
        signs = _hadamard(self.branching)
        # A child that is not there counts as the first one and is not chosen.
        best = known + [known[0]] * (self.branching - len(known))
        grid, ratio = grid_ratio("noise_multiplier", sigma, None)
        scaled = [
            sum((sign * m for sign, m in zip(line, best, strict=True)), Fraction(0))
            / (self.branching * Fraction(2) ** grid)
            for line in signs[1:]
        ]
        # floor(x + Z + 1/2): the rounded ideal sum, see `noise.rounding`.
        wholes = [floor(x + Fraction(1, 2)) for x in scaled]
        offsets = [x + Fraction(1, 2) - n for x, n in zip(scaled, wholes, strict=True)]
        noise = gaussian_chunk(
            np.array([float(offset) for offset in offsets]),
            lambda index: offsets[index],
            ratio=ratio,
            bits=bits,
        )
        steps = [n + int(z) for n, z in zip(wholes, noise.tolist(), strict=True)]
        noisy = [
            sum(line[child] * step for line, step in zip(signs[1:], steps, strict=True))
            for child in range(len(known))
        ]
        return noisy.index(max(noisy)), tuple(float_multiples(steps, grid).tolist())


@lru_cache(maxsize=len(_BRANCHINGS))
def _hadamard(size: int) -> tuple[tuple[int, ...], ...]:
    """Sylvester's matrix of signs: orthogonal lines, the first all ones."""
    return tuple(
        tuple(1 - 2 * ((one & other).bit_count() % 2) for other in range(size))
        for one in range(size)
    )


def _best_of_groups(scores: NDArray[Any], size: int) -> NDArray[Any]:
    """The largest of every `size` scores, a power of 2; the last group may be smaller."""
    while size > 1:
        pairs = np.maximum(scores[: scores.size // 2 * 2 : 2], scores[1::2])
        scores = np.append(pairs, scores[-1]) if scores.size % 2 else pairs
        size //= 2
    return scores


def _random_order(count: int, bits: RandomBits) -> NDArray[np.int64]:
    """A permutation, evenly drawn."""
    while True:
        keys = bits.words(count)
        order = np.argsort(keys).astype(np.int64, copy=False)
        # Given that no two keys are equal, all orders are as likely.
        if count < 2 or (np.diff(keys[order]) > 0).all():
            return order
