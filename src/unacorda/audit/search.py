"""Search for two neighbors and an event that violate a guarantee."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from unacorda import checks
from unacorda.audit.arguments import called, items_of
from unacorda.audit.bounds import Bound
from unacorda.audit.learned import Score
from unacorda.audit.many_runs import clearest, foreseen, many_runs
from unacorda.audit.power import BASE, Claim, factor_seen, mass_seen, points, samples_for
from unacorda.errors import InvalidParameter
from unacorda.privacy.guarantees import GDP, ApproxDP, Guarantee, PureDP

Pair = tuple[Any, Any]
Sample = Callable[[Any, int], Sequence[Any]]
Vary = Callable[[Pair, np.random.Generator], Pair]

_KEPT: Final = 3
_MOST: Final = 10**9
_MOST_ROUNDS: Final = 10_000
_LEAST_ALARM: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Finding:
    """The result of a search: a violation, or the closest that the search came to one.

    Attributes
    ----------
    pair
        The neighboring inputs.
    bound
        The verdict on fresh samples.
    promised
        The claimed epsilon at the bound's delta.
    tried
        How many pairs were tried.
    event
        The event of the verdict, in words.
    counts
        How many of `runs` outputs of the first and of the second input are in it.
    runs
        How many outputs of each input were sampled for the verdict.
    unseen
        Violations that need more samples to be detected, in words.

    Examples
    --------
    >>> from unacorda.audit.bounds import Bound
    >>> bound = Bound(
    ...     epsilon=1.8, delta=0.0, confidence=0.95, method="search", guesses=2000, right=1800
    ... )
    >>> Finding(
    ...     pair=(0, 1),
    ...     bound=bound,
    ...     promised=1.0,
    ...     tried=1,
    ...     event="above 0.5",
    ...     counts=(100, 900),
    ...     runs=1000,
    ...     unseen="",
    ... ).violated
    True
    """

    pair: Pair
    bound: Bound
    promised: float
    tried: int
    event: str
    counts: tuple[int, int]
    runs: int
    unseen: str

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.bound.contradicts(self.promised)

    def __repr__(self) -> str:
        verdict = "violated" if self.violated else "not refuted"
        return (
            f"Finding({verdict}: epsilon >= {self.bound.epsilon:.3g} where {self.promised:.3g} "
            f"was promised at delta {self.bound.delta:.3g}. Event: {self.event}; "
            f"{self.counts[0]:,} times on the first input, {self.counts[1]:,} on the second, of "
            f"{self.runs:,} each. {self.tried} pairs tried. {self.unseen})"
        )


def search(
    sample: Sample,
    pairs: Iterable[Pair],
    *,
    claim: Guarantee,
    vary: Vary | None = None,
    generations: int = 3,
    explore: int = 4000,
    confirm: int | None = None,
    false_alarm: float = 1e-6,
    seed: int | None = None,
) -> Finding:
    r"""Search neighboring inputs for distinguishing events, and test them on fresh samples.

    The events are half-lines, bins, single values, sets of values that occurred before, and level
    sets of a score over all features. Sets of earlier values reveal noise from few seeds: outputs
    on one input occur again on it, and not on the other.

    Statement: if `violated`, the claim is false, except with probability at most false_alarm. The
    verdict uses only samples that no choice depends on.

    Source: Ding, Wang, Wang, Zhang, Kifer 2018 (StatDP); Bichsel, Steffen, Bogunovic, Vechev 2021
    (DP-Sniper: learned events).

    Parameters
    ----------
    sample
        A function from an input and a number n to n independent outputs of the mechanism.
    pairs
        Neighboring inputs to start from, each a tuple of two, such as a grid of them.
    claim
        PureDP, ApproxDP or GDP.
    vary
        A function that makes another pair of neighbors from a pair and a NumPy generator.
    generations
        The number of rounds in which the three best pairs are varied.
    explore
        The number of samples of an input for finding the best pairs, 100 or more.
    confirm
        The number of samples for learning again from the three best, and of fresh ones for the
        verdict. The default detects noise of half the scale with probability .99, and an output
        without noise in one of 1,000, if 4,000,000 samples (400,000 for the latter) suffice.
        `unseen` has the violations that the number cannot detect.
    false_alarm
        The probability of a false alarm for a true claim, from 1e-12 to below 1.
    seed
        The seed of the generator for `vary`.

    Returns
    -------
    Finding
        The result, with the verdict as `violated`.

    Raises
    ------
    InvalidParameter
        For no pairs, another claim, and numbers out of their range.

    Examples
    --------
    >>> drawn = np.random.default_rng(1)
    >>> halved = lambda x, n: x + drawn.laplace(scale=0.5, size=n)  # epsilon 2
    >>> search(halved, [(0.0, 1.0)], claim=PureDP(1)).violated
    True
    """
    expected = "at least one pair of neighbors"
    population = items_of("pairs", pairs, expected=expected)
    if not population or not all(_is_pair(pair) for pair in population):
        raise InvalidParameter("pairs", pairs, expected=f"{expected}, each a tuple of two inputs")
    called(sample=sample)
    if vary is not None:
        called(vary=vary)
    if not isinstance(claim, PureDP | ApproxDP | GDP):
        raise InvalidParameter("claim", claim, expected="PureDP, ApproxDP or GDP")
    for name, count in (("explore", explore), ("confirm", BASE if confirm is None else confirm)):
        if checks.positive_integer(**{name: count}) < 100:
            raise InvalidParameter(name, count, expected="100 samples or more")
        if count > _MOST:
            raise InvalidParameter(name, count, expected=f"at most {_MOST:,}")
    rounds = checks.positive_integer(generations=generations)
    if rounds > _MOST_ROUNDS:
        raise InvalidParameter("generations", generations, expected=f"at most {_MOST_ROUNDS:,}")
    if checks.probability(false_alarm=false_alarm) < _LEAST_ALARM:
        raise InvalidParameter("false_alarm", false_alarm, expected=f"{_LEAST_ALARM:g} or more")
    sure = math.nextafter(1 - false_alarm, 1)  # up, so that no more is left than was asked for
    drawn = _generator(seed)
    tried = [_tried(sample, pair, claim, explore) for pair in population]
    count = len(tried)
    for _ in range(rounds if vary is not None else 0):
        assert vary is not None
        parents = sorted(tried, key=lambda one: -one.excess)[:_KEPT]
        children = [vary(one.pair, drawn) for one in parents for _ in range(_KEPT)]
        if not all(_is_pair(pair) for pair in children):
            raise InvalidParameter("vary", vary, expected="a function that makes pairs of pairs")
        tried = [*parents, *(_tried(sample, pair, claim, explore) for pair in children)]
        count += len(children)
    runs = samples_for(claim, confidence=sure) if confirm is None else confirm
    best = sorted(tried, key=lambda one: -one.excess)[:_KEPT]
    if runs > explore:
        again = [_tried(sample, one.pair, claim, runs, confidence=sure) for one in best]
        best = sorted(again, key=lambda one: -one.excess)
    return best[0].judged(sample, runs, claim, confidence=sure, tried=count)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Tried:
    """A pair, its learned score, the (epsilon, delta) to hold it against, and how far above.

    seen: what the score says of samples of both inputs that it was not learned from.
    """

    pair: Pair
    score: Score
    seen: tuple[np.ndarray, np.ndarray]
    epsilon: float
    delta: float
    excess: float

    def judged(
        self, sample: Sample, count: int, claim: Claim, *, confidence: float, tried: int
    ) -> Finding:
        outputs = [_outputs(sample, x, count) for x in self.pair]
        values, inside = _scored(outputs, self.score)
        cut = clearest(*self.seen, delta=self.delta, confidence=confidence, runs=count)
        bound = many_runs(values, inside, delta=self.delta, confidence=confidence, threshold=cut)
        high = values >= cut
        counts = int(high[inside].sum()), int(high[~inside].sum())
        # the side that one of the inputs is likelier to be on by the larger factor
        less = count - counts[0], count - counts[1]
        above = max(counts) * min(less) >= max(less) * min(counts)
        return Finding(
            pair=self.pair,
            bound=bound,
            promised=self.epsilon,
            tried=tried,
            event=self.score.said(cut, above=above),
            counts=counts if above else less,
            runs=count,
            unseen=_unseen(claim, count, confidence=confidence),
        )


def _tried(
    sample: Sample, pair: Pair, claim: Claim, count: int, *, confidence: float | None = None
) -> _Tried:
    """What is learned of a pair; confidence: of the verdict, to be foreseen, else a rough one."""
    half = count // 2
    scores = Score.candidates(*(_outputs(sample, x, half) for x in pair))
    outputs = [_outputs(sample, x, half) for x in pair]
    found = []
    for score in scores:
        values, inside = _scored(outputs, score)
        seen = values[inside], values[~inside]
        for epsilon, delta in points(claim):
            if confidence is None:
                reached = many_runs(values, inside, delta=delta, confidence=0.8).epsilon
            else:
                reached = foreseen(*seen, delta=delta, confidence=confidence, runs=count)
            found.append((reached - epsilon, epsilon, delta, score, seen))
    excess, epsilon, delta, score, seen = max(found, key=lambda one: one[0])
    return _Tried(pair=pair, score=score, seen=seen, epsilon=epsilon, delta=delta, excess=excess)


def _unseen(claim: Claim, runs: int, *, confidence: float) -> str:
    """What so many samples miss, or may."""
    factor = factor_seen(claim, runs, confidence=confidence)
    mass = mass_seen(claim, runs, confidence=confidence)
    if factor is None and mass is None:
        return "Nothing that breaks this claim would show in so few samples"
    limits = []
    if factor is None:
        limits.append("noise that is too small by a factor of 16 or less")
    else:
        limits.append(f"noise that is too small by less than a factor of {factor:g}")
    if mass is not None:
        limits.append(f"outputs of one input alone with a probability below {mass:.2g}")
    return f"Too small to be seen surely: {'; '.join(limits)}"


def _generator(seed: object) -> np.random.Generator:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise InvalidParameter("seed", seed, expected="a whole number, 0 or above, or None")
    return np.random.default_rng(seed)


def _is_pair(pair: object) -> bool:
    return isinstance(pair, Sequence | np.ndarray) and len(pair) == 2


def _scored(outputs: list[Sequence[Any]], score: Score) -> tuple[np.ndarray, np.ndarray]:
    parts = [score(of_one) for of_one in outputs]
    inside = np.repeat([True, False], [len(part) for part in parts])
    values = np.concatenate(parts)
    return np.where(np.isnan(values), -math.inf, values), inside


def _outputs(sample: Sample, x: Any, count: int) -> Sequence[Any]:
    outputs = sample(x, count)
    found = len(outputs) if hasattr(outputs, "__len__") else type(outputs).__name__
    if found != count:
        raise InvalidParameter(
            "sample", f"{found} outputs", expected=f"as many as were asked for, {count}"
        )
    return outputs
