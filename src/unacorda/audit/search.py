"""Looking for two neighbours and an event that break a promise."""

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
from unacorda.audit.many_runs import clearest, many_runs
from unacorda.errors import InvalidParameter
from unacorda.privacy.conversions import approx_dp_delta_from_gdp
from unacorda.privacy.guarantees import GDP, ApproxDP, Guarantee, PureDP

__all__ = ["Finding", "search"]

Pair = tuple[Any, Any]
Sample = Callable[[Any, int], Sequence[Any]]
Vary = Callable[[Pair, np.random.Generator], Pair]

_KEPT: Final = 3
_MOST: Final = 10**9
_MOST_ROUNDS: Final = 10_000
_LEAST_ALARM: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Finding:
    """What a search ended with: a promise broken, or the nearest it came to that.

    pair: the neighbouring inputs; bound: the verdict on fresh samples; promised: the epsilon that
    the claim allows at the bound's delta; tried: how many pairs were looked at.
    """

    pair: Pair
    bound: Bound
    promised: float
    tried: int

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.bound.contradicts(self.promised)

    def __repr__(self) -> str:
        verdict = "violated" if self.violated else "not refuted"
        return (
            f"Finding({verdict}: epsilon >= {self.bound.epsilon:.3g} where {self.promised:.3g} "
            f"was promised at delta {self.bound.delta:.3g}; {self.tried} pairs tried)"
        )


def search(
    sample: Sample,
    pairs: Iterable[Pair],
    *,
    claim: Guarantee,
    vary: Vary | None = None,
    generations: int = 3,
    explore: int = 4000,
    confirm: int = 40_000,
    false_alarm: float = 1e-6,
    seed: int | None = None,
) -> Finding:
    r"""Try neighbouring inputs, learn what tells their outputs apart, and judge on fresh samples.

    sample: from an input and a number n to n independent outputs of the mechanism; pairs: of
    neighbours to begin with, a grid for instance; claim: PureDP, ApproxDP or GDP; vary: makes
    another pair of neighbours from a pair, for `generations` rounds of evolution that go on from
    the three best; explore, confirm: samples an input for learning and for the verdict;
    false_alarm: the probability with which a claim that holds is called violated; seed: of `vary`.

    Statement   if `violated`, the claim is false, or something happened that has a probability of
                at most false_alarm: the verdict counts samples that had no part in any choice.
    Source      Ding, Wang, Wang, Zhang, Kifer 2018 (StatDP); Bichsel, Steffen, Bogunovic, Vechev
                2021 (DP-Sniper: learned events).
    Raises InvalidParameter for no pairs, another claim, numbers below 1, and a false_alarm below
    1e-12.

    >>> drawn = np.random.default_rng(1)
    >>> halved = lambda x, n: x + drawn.laplace(scale=0.5, size=n)  # epsilon 2
    >>> search(halved, [(0.0, 1.0)], claim=PureDP(1)).violated
    True
    """
    expected = "at least one pair of neighbours"
    population = items_of("pairs", pairs, expected=expected)
    if not population or not all(_is_pair(pair) for pair in population):
        raise InvalidParameter("pairs", pairs, expected=f"{expected}, each a tuple of two inputs")
    called(sample=sample)
    if vary is not None:
        called(vary=vary)
    if not isinstance(claim, PureDP | ApproxDP | GDP):
        raise InvalidParameter("claim", claim, expected="PureDP, ApproxDP or GDP")
    for name, count in (("explore", explore), ("confirm", confirm)):
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
    best = max(tried, key=lambda one: one.excess)
    bound = best.judged(sample, confirm, confidence=sure)
    return Finding(pair=best.pair, bound=bound, promised=best.epsilon, tried=count)


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

    def judged(self, sample: Sample, count: int, *, confidence: float) -> Bound:
        told = [_outputs(sample, x, count) for x in self.pair]
        values, inside = _scored(told, self.score)
        cut = clearest(*self.seen, delta=self.delta, confidence=confidence, runs=count)
        return many_runs(values, inside, delta=self.delta, confidence=confidence, threshold=cut)


def _tried(sample: Sample, pair: Pair, claim: Guarantee, count: int) -> _Tried:
    half = count // 2
    scores = Score.candidates(*(_outputs(sample, x, half) for x in pair))
    told = [_outputs(sample, x, half) for x in pair]
    found = []
    for score in scores:
        values, inside = _scored(told, score)
        for epsilon, delta in _points(claim):
            bound = many_runs(values, inside, delta=delta, confidence=0.8)
            seen = values[inside], values[~inside]
            found.append((bound.epsilon - epsilon, epsilon, delta, score, seen))
    excess, epsilon, delta, score, seen = max(found, key=lambda one: one[0])
    return _Tried(pair=pair, score=score, seen=seen, epsilon=epsilon, delta=delta, excess=excess)


def _generator(seed: object) -> np.random.Generator:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise InvalidParameter("seed", seed, expected="a whole number, 0 or above, or None")
    return np.random.default_rng(seed)


def _is_pair(pair: object) -> bool:
    return isinstance(pair, Sequence | np.ndarray) and len(pair) == 2


def _points(claim: Guarantee) -> list[tuple[float, float]]:
    """The (epsilon, delta) that a claim allows and that it is held against."""
    match claim:
        case PureDP(epsilon):
            return [(float(epsilon), 0.0)]
        case ApproxDP(epsilon, delta):
            return [(float(epsilon), float(delta))]
        case GDP():
            mu, spare = claim.mu, float(claim.delta)
            epsilons = [mu * (mu / 2 + k) for k in (0.0, 1.0, 2.0, 3.0)]
            told = [(e, spare + approx_dp_delta_from_gdp(mu, epsilon=e)) for e in epsilons]
            return [(e, delta) for e, delta in told if delta < 1]
        case _:
            raise AssertionError("claims are checked before")


def _scored(told: list[Sequence[Any]], score: Score) -> tuple[np.ndarray, np.ndarray]:
    parts = [score(outputs) for outputs in told]
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
