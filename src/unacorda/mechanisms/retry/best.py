r"""Private selection: the best of a random number of runs.

It serves to tune hyperparameters privately: a run draws one candidate setting, trains with it and
scores the result, all under differential privacy. Running it K times and keeping the best costs
little more than one run, even for large K, if K is random, independent of the data, and never
shown. For a known K the cost would grow with K.

K is drawn exactly. The ratios of neighboring probabilities are rational, (p + q j) / (r + s j), j
= 0, 1, ...; K is the least k with U total < 1 + r_0 + r_0 r_1 + ... + r_0 ... r_{k-1}, U a uniform
number. Both sides are bracketed between integers in fixed point; where the brackets overlap, 64
more bits of U are read and as many places added. So the law is exact, its tail included. Under a
cap the total is the sum itself, and the place is looked up in a table of the sums.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import numbers
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from typing import Final, Protocol, TypeAlias, TypeVar

from unacorda import checks
from unacorda.balls import Ball, ball, bracket
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.noise.refinement import LazyUniform
from unacorda.mechanisms.parameters import Real, readable
from unacorda.privacy import events
from unacorda.privacy.events import NegativeBinomialTries, PoissonTries
from unacorda.privacy.guarantees import ApproxDP, PureDP

Ratios: TypeAlias = tuple[int, int, int, int]
"""p, q, r, s of the ratios (p + q j) / (r + s j)."""

Bounds: TypeAlias = tuple[int, int]
"""A number between two integers, in fixed point."""

_PIECE: Final = 32  # of a Poisson mean, so that e^mean stays small

Candidate = TypeVar("Candidate")

_MOST: Final = 1 << 20


def draw_tries(event: NegativeBinomialTries | PoissonTries, *, bits: RandomBits) -> int:
    """One draw of K, of exactly the law that the event names.

    Without a cap its time is proportional to K; with a cap it is not.

    >>> from unacorda.bits import SeededBits
    >>> from unacorda.privacy.events import Pure
    >>> draw_tries(
    ...     NegativeBinomialTries(event=Pure(epsilon=1), shape=0, stop=1), bits=SeededBits(1)
    ... )
    1
    """
    if isinstance(event, PoissonTries):
        mean = checks.exact("mean", event.mean)
        if event.most is not None:
            return _capped(_poisson(mean), event.most + 1, bits)
        pieces = -(-mean // _PIECE)
        part = mean / pieces
        return sum(
            _unbounded(_poisson(part), partial(bracket, lambda: ball(part).exp()), bits)
            for _ in range(pieces)
        )
    shape, stop = checks.exact("shape", event.shape), checks.exact("stop", event.stop)
    if stop == 1:
        return 1
    if event.most is not None:
        return 1 + _capped(_negative_binomial(shape, stop), event.most, bits)
    return 1 + _unbounded(
        _negative_binomial(shape, stop),
        lambda places: _negative_binomial_total(shape, stop, places),
        bits,
    )


def _poisson(mean: Fraction) -> Ratios:
    """The ratios mean / (j + 1)."""
    return mean.numerator, 0, mean.denominator, mean.denominator


def _negative_binomial(shape: Fraction, stop: Fraction) -> Ratios:
    """The ratios (1 - stop) (j + 1 + shape) / (j + 2), from K = 1 on."""
    stay, over = 1 - stop, shape.denominator
    return (
        stay.numerator * (over + shape.numerator),
        stay.numerator * over,
        2 * stay.denominator * over,
        stay.denominator * over,
    )


def _unbounded(ratios: Ratios, total: Callable[[int], Bounds], bits: RandomBits) -> int:
    """The place K at which the sum of terms passes U times its total."""
    uniform = LazyUniform(int(bits.words(1)[0]), length=64, bits=bits)
    while (found := _passing(ratios, total(uniform.places), uniform)) is None:
        uniform.extend()
    return found


def _passing(ratios: Ratios, total: Bounds, uniform: LazyUniform) -> int | None:
    """The same, or None where the bits that were read do not decide it."""
    bottom, top = _goal(total, uniform)
    numerator, rise, denominator, fall = ratios
    low = high = sum_low = sum_high = 1 << uniform.places
    place = 0
    while sum_high <= bottom:  # surely not passed
        low = low * numerator // denominator
        high = -(-high * numerator // denominator)
        sum_low, sum_high = sum_low + low, sum_high + high
        numerator, denominator = numerator + rise, denominator + fall
        place += 1
    return place if sum_low >= top else None


def _capped(ratios: Ratios, count: int, bits: RandomBits) -> int:
    """The same place among the first `count` terms, of which the total is the sum."""
    uniform = LazyUniform(int(bits.words(1)[0]), length=64, bits=bits)
    while True:
        lows, highs = _sums(ratios, count, uniform.places)
        bottom, top = _goal((lows[-1], highs[-1]), uniform)
        place = bisect_right(highs, bottom)  # the first that may pass
        if place == count - 1 or lows[place] >= top:
            return place
        uniform.extend()


@lru_cache(maxsize=16)
def _sums(ratios: Ratios, count: int, places: int) -> tuple[list[int], list[int]]:
    """The partial sums of the first `count` terms, from below and above; the largest term is 1."""
    numerator, rise, denominator, fall = ratios
    steps = [(numerator + rise * j, denominator + fall * j) for j in range(count - 1)]
    # The ratios fall below 1 at one place at most: the terms rise to it and fall from it on.
    peak = next((j for j, (over, under) in enumerate(steps) if over < under), count - 1)
    low, high = [1 << places] * count, [1 << places] * count
    for j in range(peak, count - 1):
        over, under = steps[j]
        low[j + 1], high[j + 1] = low[j] * over // under, -(-high[j] * over // under)
    for j in range(peak - 1, -1, -1):
        over, under = steps[j]
        low[j], high[j] = low[j + 1] * under // over, -(-high[j + 1] * under // over)
    return list(accumulate(low)), list(accumulate(high))


def _goal(total: Bounds, uniform: LazyUniform) -> Bounds:
    """U times the total."""
    low, high = total
    return uniform.value * low >> uniform.length, -(-(uniform.value + 1) * high >> uniform.length)


def _negative_binomial_total(shape: Fraction, stop: Fraction, places: int) -> Bounds:
    """(stop^-shape - 1) / (shape (1 - stop)), or -ln(stop) / (1 - stop) for a shape of 0."""

    def total() -> Ball:
        minus_log = -ball(stop).log()
        if shape == 0:
            return minus_log / ball(1 - stop)
        return (ball(shape) * minus_log).expm1() / ball(shape * (1 - stop))

    return bracket(total, places)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestOf:
    r"""Run a mechanism K times and release the best candidate with its score, and not K.

    Source: Liu and Talwar 2019, arXiv:1811.07971; Papernot and Steinke 2022, arXiv:2110.03620;
    proofs in docs/proofs/selection.md.

    Parameters
    ----------
    event
        `NegativeBinomialTries` or `PoissonTries` around the event of **one run**, which must cover
        the candidate and its score together: the score is noisy, never the true one. Both determine
        the distribution of K, and a cap if any. For pure runs of epsilon the geometric distribution
        (shape 1) costs at most 3 epsilon, the logarithmic one (shape 0) 2 epsilon; other runs are
        priced by their curves.
    pad
        Always make as many runs as the cap, of which the first K count, so that the time does not
        reveal K. Otherwise the time does, and no event covers that.

    Examples
    --------
    >>> from unacorda import events, mechanisms
    >>> from unacorda.bits import SeededBits
    >>> accuracy = {"slow": 810, "fast": 640, "wild": 420}  # of 1000 people, so private
    >>> count = mechanisms.DiscreteLaplace(scale=10, l1_sensitivity=1)
    >>> def run(*, bits):
    ...     candidate = list(accuracy)[bits.below(3)]
    ...     return candidate, count.release(accuracy[candidate], bits=bits)
    >>> best = BestOf(event=events.NegativeBinomialTries(event=count.event, shape=0, stop=0.05))
    >>> best.release(run, bits=SeededBits(1))
    ('slow', 829)
    """

    event: events.NegativeBinomialTries | events.PoissonTries
    pad: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.event, events.NegativeBinomialTries | events.PoissonTries):
            raise InvalidParameter(
                "event", self.event, expected="NegativeBinomialTries or PoissonTries"
            )
        if self.event.most is not None and self.event.most > _MOST:
            raise InvalidParameter("event", self.event, expected="a cap of 2^20 runs or less")
        if self.pad not in ((False,) if self.event.most is None else (False, True)):
            raise InvalidParameter("pad", self.pad, expected="False, or an event with a cap `most`")

    @property
    def mean(self) -> float:
        """The mean number of runs, up to rounding, without the cap.

        >>> from unacorda import events
        >>> tries = events.NegativeBinomialTries(event=events.Pure(epsilon=1), shape=1, stop=0.01)
        >>> round(BestOf(event=tries).mean, 9)
        100.0
        """
        if isinstance(self.event, events.PoissonTries):
            return float(self.event.mean)
        shape, stop = float(self.event.shape), float(self.event.stop)
        if stop == 1:
            return 1.0
        odds, log_stop = (1 - stop) / stop, math.log(stop)
        return odds / -log_stop if shape == 0 else -odds * shape / math.expm1(shape * log_stop)

    def release(
        self, run: Run[tuple[Candidate, Number]], *, bits: RandomBits | None = None
    ) -> tuple[Candidate, Number] | None:
        """Release the best of the runs' pairs (candidate, score), or None if there was no run.

        Only `PoissonTries` can have no run. An exception of a run is passed on, and whether it
        occurs must be as private as the output. So catch errors that the data can cause, and return
        the candidate with the score -inf.

        Parameters
        ----------
        run
            A function that is called K times with ``bits=``. It must take all its randomness from
            there, and its pair costs the event's inner event. A higher score is better, the
            earliest of equal ones wins, and NaN is below every number.
        bits
            By default a secure source.

        Raises
        ------
        InvalidParameter
            For a result that is not such a pair.
        """
        source = source_of(bits)
        tries = draw_tries(self.event, bits=source)
        best: tuple[tuple[Candidate, Number] | None, Number] = (None, -math.inf)
        runs = self.event.most if self.pad and self.event.most is not None else tries
        for count in range(runs):
            pair = run(bits=source)
            score = _score_of(pair)
            better = (score > best[1]) | (count == 0)
            # No branch: what counts takes the time of what does not.
            best = (best, (pair, score))[better & (count < tries)]
        return best[0]


def _score_of(pair: object) -> Number:
    """What the pair is ordered by: -inf for NaN."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        kind = type(pair).__name__
        raise InvalidParameter("run", kind, expected="one that returns a pair (candidate, score)")
    score = number_of("score", pair[1])
    return -math.inf if is_nan(score) else score


Output_co = TypeVar("Output_co", covariant=True)

Number: TypeAlias = int | float | Fraction


class Run(Protocol[Output_co]):
    """One run: all its randomness comes from ``bits``.

    A mechanism and its data make one: ``functools.partial(mechanism.release, data)``.
    """

    def __call__(self, *, bits: RandomBits) -> Output_co:
        """One output, drawn afresh."""
        ...


def number_of(argument: str, value: object) -> Number:
    """A score or a loss for exact comparison; -0.0 is 0.0.

    Raises InvalidParameter, which names only the type, for a value that is not a real number.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        kind = type(value).__name__
        raise InvalidParameter(argument, kind, expected="an int, a float or a Fraction")
    if isinstance(value, Fraction):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def is_nan(value: Number) -> bool:
    """Whether the number is none."""
    return isinstance(value, float) and math.isnan(value)


def too_high(loss: object, limit: Fraction) -> bool:
    """Whether a loss is above the limit, exactly; NaN is."""
    number = number_of("loss", loss)
    return is_nan(number) or number > limit


def guarantee_of_run(guarantee: object, *, name: str = "guarantee") -> tuple[Fraction, Fraction]:
    """Epsilon and delta of one run."""
    if isinstance(guarantee, PureDP):
        return guarantee.epsilon, Fraction(0)
    if isinstance(guarantee, ApproxDP):
        return guarantee.epsilon, guarantee.delta
    raise InvalidParameter(name, guarantee, expected="PureDP or ApproxDP, of one run")


def probability(name: str, value: checks.Number) -> Real:
    """The number as it prints, if it is 0 or above and below 1; else InvalidParameter."""
    number = checks.exact(name, value)
    checks.demand(0 <= number < 1, name, value, expected="a probability below 1")
    return readable(number)
