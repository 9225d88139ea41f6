r"""Mechanisms that never fail, by a fallback or by repetition.

With a fallback, a mechanism runs once, and if the loss is too high, answers without privacy. With
repetition, it runs until a private test accepts the loss. The test accepts a run whose loss is at
most the limit. A run j sensitivities above it is accepted with probability a(j), which falls to 0
by steps of e^-epsilon, as fast as (epsilon, delta)-DP of an accepted run allows. The known method
adds truncated Laplace noise to the loss; it has tails on both sides, so it accepts losses twice as
far above the limit.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeVar

from unacorda import checks
from unacorda.balls import Ball, ball, least
from unacorda.bits import RandomBits, source_of
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.parameters import Real, decimal_up, positive, readable, whole
from unacorda.mechanisms.partitions.selection import rising_chances
from unacorda.mechanisms.retry.best import (
    Number,
    Run,
    guarantee_of_run,
    number_of,
    probability,
    too_high,
)
from unacorda.privacy import events
from unacorda.privacy.events.fields import keep
from unacorda.privacy.guarantees import ApproxDP, PureDP

Output = TypeVar("Output")

_BITS: Final = 128
_ONE: Final = 1 << _BITS
_LONGEST: Final = 1 << 14
_LEAST_DELTA: Final = Fraction(1, 1 << 80)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsorbFailure:
    """Run a mechanism once; if its loss exceeds the limit, answer without privacy.

    You must prove the bound `failure` from the mechanism's tail, for the worst dataset. The share
    of failures on one dataset is not such a bound, and without one there is no privacy. The release
    is (epsilon, delta + (1 + e^epsilon) failure)-DP, and this delta is tight, since the set of good
    outputs depends on the data. The loss can be any function.

    Source: Steinke, Differentially Private Algorithms that Never Fail, DifferentialPrivacy.org
    (with delta + failure, which is too small); proof in docs/proofs/retry.md, section 1.

    Parameters
    ----------
    guarantee
        Of one run, epsilon and delta.
    limit
        The largest loss that is accepted.
    failure
        A proved upper bound of the probability that the loss of one run exceeds the limit, **on
        every input**.

    Examples
    --------
    >>> AbsorbFailure(guarantee=PureDP(1), limit=100, failure=1e-9).event
    Approximate(epsilon=1, delta=3.71828182845905e-09)
    """

    guarantee: PureDP | ApproxDP
    limit: Real
    failure: Real

    def __post_init__(self) -> None:
        guarantee_of_run(self.guarantee)
        keep(
            self,
            limit=readable(checks.exact("limit", self.limit)),
            failure=probability("failure", self.failure),
        )
        if self._delta() >= 1:
            raise InvalidParameter(
                "failure", self.failure, expected="delta + (1 + e^epsilon) failure below 1"
            )

    @property
    def event(self) -> events.Approximate:
        """What one release costs."""
        epsilon, _ = guarantee_of_run(self.guarantee)
        return events.Approximate(epsilon=readable(epsilon), delta=self._delta())

    def _delta(self) -> Real:
        epsilon, delta = guarantee_of_run(self.guarantee)
        failure = checks.exact("failure", self.failure)
        if failure == 0:
            return readable(delta)
        total = ball(delta) + (1 + ball(epsilon).exp()) * ball(failure)
        return decimal_up(total) if total < 1 else 1

    def release(
        self,
        run: Run[Output],
        *,
        loss: Callable[[Output], Number],
        fallback: Callable[[], Output],
        bits: RandomBits | None = None,
    ) -> Output:
        """Return the output of one run, or of the fallback if the loss exceeds the limit.

        Exceptions of the three functions are passed on. The guarantee holds only if they never
        raise. The time may reveal that the fallback was called; the delta covers this too.

        Parameters
        ----------
        run
            Called once, with ``bits=``. ``functools.partial(mechanism.release, data)`` is one.
        loss
            The loss of an output, on the data. It is not released. NaN is above every limit.
        fallback
            Called only if the loss exceeds the limit. It may use the data without restriction.
        bits
            By default a secure source.

        Returns
        -------
        object
            The output.
        """
        output = run(bits=source_of(bits))
        return fallback() if too_high(loss(output), checks.exact("limit", self.limit)) else output


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionOnSuccess:
    """Run a mechanism until a private test finds its loss low, so that no output has a high one.

    With e and d the sums of both epsilons and of both deltas, N the rounds and b the failure, the
    release is (e + ln R, d (1 - b^N)/(1 - b) + b^N)-DP, where R is at most e^e + d/(1 - b) and
    about 1/(1 - b), see `event`.

    Source: Steinke, Differentially Private Algorithms that Never Fail, DifferentialPrivacy.org; the
    acceptance by Desfontaines, Voss, Gipson, Mandayam 2022, arXiv:2006.03684, Theorem 1, of one
    side; the bounds, smaller than the known ones, in docs/proofs/retry.md, sections 2 and 3.

    Parameters
    ----------
    guarantee
        Of one run, epsilon and delta.
    test
        Of one test, both above 0.
    sensitivity
        The sensitivity of the loss of a fixed output, including rounding.
    limit
        The loss above which a run can be rejected.
    failure
        A proved upper bound b of the probability that the loss of one run exceeds the limit, **on
        every input**. You must prove it from the mechanism's tail, for the worst dataset. The share
        of failures on one dataset is not such a bound, and without one there is no privacy.
    rounds
        The number of runs, N.

    Examples
    --------
    >>> sure = ConditionOnSuccess(
    ...     guarantee=PureDP(1),
    ...     test=ApproxDP(0.5, 1e-7),
    ...     sensitivity=1,
    ...     limit=3,
    ...     failure=0.05,
    ...     rounds=6,
    ... )
    >>> sure.event
    Approximate(epsilon=1.53272805159175, delta=1.20888156250001e-07)
    >>> sure.worst_loss
    34
    """

    guarantee: PureDP | ApproxDP
    test: ApproxDP
    sensitivity: Real
    limit: Real
    failure: Real
    rounds: int

    def __post_init__(self) -> None:
        guarantee_of_run(self.guarantee)
        _, test_delta = guarantee_of_run(self.test, name="test")
        if self.test.epsilon == 0 or not _LEAST_DELTA <= test_delta < 1:
            raise InvalidParameter(
                "test",
                self.test,
                expected="ApproxDP, epsilon above 0 and delta from 2^-80 on, below 1",
            )
        keep(
            self,
            sensitivity=positive("sensitivity", self.sensitivity),
            limit=readable(checks.exact("limit", self.limit)),
            failure=probability("failure", self.failure),
            rounds=whole("rounds", self.rounds, least=1, most=1 << 20),
        )
        if len(self._chances) > _LONGEST:
            raise InvalidParameter(
                "test",
                self.test,
                expected="a larger epsilon: this test refuses no loss that is "
                "16,000 sensitivities or less above the limit",
            )
        if self._price()[1] >= 1:
            raise InvalidParameter(
                "rounds",
                self.rounds,
                expected="fewer of them, or smaller deltas: the delta of all must be below 1",
            )

    @property
    def event(self) -> events.Approximate:
        """What one release costs, whether it finds an output or not."""
        epsilon, delta = self._price()
        return events.Approximate(epsilon=epsilon, delta=delta)

    @property
    def worst_loss(self) -> Real:
        """No released output has a loss above this."""
        steps = len(self._chances) - 2
        return readable(
            checks.exact("limit", self.limit)
            + steps * checks.exact("sensitivity", self.sensitivity)
        )

    @property
    def no_output(self) -> Real:
        """An upper bound on the probability that all rounds are rejected, on every input."""
        failure = checks.exact("failure", self.failure)
        return decimal_up(ball(failure) ** self.rounds) if failure else 0

    @property
    def _chances(self) -> tuple[int, ...]:
        return acceptance(self.test.epsilon, self.test.delta)

    def _price(self) -> tuple[Real, Real]:
        return _price(
            guarantee_of_run(self.guarantee),
            (self.test.epsilon, self.test.delta),
            failure=checks.exact("failure", self.failure),
            rounds=self.rounds,
        )

    def release(
        self,
        run: Run[Output],
        *,
        loss: Callable[[Output], Number],
        bits: RandomBits | None = None,
    ) -> Output | None:
        """Return the output of the first accepted round, or None.

        All rounds always run, so the time does not reveal which one was accepted. Exceptions of
        both functions are passed on. The guarantee holds only if they never raise.

        Parameters
        ----------
        run
            Called with ``bits=`` in each round. ``functools.partial(mechanism.release, data)`` is
            one.
        loss
            The loss of an output, on the data. It is not released. NaN counts as infinite.
        bits
            By default a secure source.

        Returns
        -------
        object or None
            None if no round was accepted.
        """
        source, chances = source_of(bits), self._chances
        found: tuple[Output | None, bool] = (None, False)
        for _ in range(self.rounds):
            output = run(bits=source)
            chance = chances[self._level(loss(output), len(chances) - 1)]
            high, low = source.words(2).tolist()
            accepted = (high << 64 | low) < chance
            # No branch: an accepted run takes the time of a refused one.
            found = (found, (output, True))[accepted & (not found[1])]
        return found[0]

    def _level(self, loss: Number, last: int) -> int:
        """By how many sensitivities the loss is above the limit, rounded up, from 0 to the last."""
        number = number_of("loss", loss)
        if isinstance(number, float) and not math.isfinite(number):
            return 0 if number == -math.inf else last
        above = Fraction(number) - checks.exact("limit", self.limit)
        return min(max(math.ceil(above / checks.exact("sensitivity", self.sensitivity)), 0), last)


@lru_cache(maxsize=64)
def acceptance(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    r"""The probabilities a(j) 2^128 of accepting a loss j sensitivities above the limit, down to 0.

    They are computed from that end, where they rise as `rising_chances` without a refusal.

    >>> [round(chance / 2**128, 4) for chance in acceptance(Fraction(1), Fraction(1, 100))]
    [1.0, 0.8579, 0.3119, 0.1111, 0.0372, 0.01, 0.0]
    """
    return (_ONE, *reversed(rising_chances(epsilon, delta, refusal=None, longest=_LONGEST)))


@lru_cache(maxsize=256)
def _price(
    run: tuple[Fraction, Fraction],
    test: tuple[Fraction, Fraction],
    *,
    failure: Fraction,
    rounds: int,
) -> tuple[Real, Real]:
    """Epsilon and delta of the release, rounded up: docs/proofs/retry.md, section 3."""
    both, lost = run[0] + test[0], run[1] + test[1]
    none = ball(failure) ** rounds
    weight = (1 - none) / ball(1 - failure)
    # How much likelier a run succeeds on a neighbor: by the run and the test, by the number of
    # rounds, and by the worst place for the losses above the limit.
    by_both = ball(both).exp() + ball(lost) / ball(1 - failure)
    chances = acceptance(*test)
    shrink, missed = (-ball(run[0])).exp(), ball(run[1])
    b = ball(failure)
    by_place = 1 + shrink * missed
    for nearer, farther in zip((_ONE, *chances), chances, strict=False):
        kept = 1 - shrink * (b * _share(_ONE - nearer) - missed)
        by_place = by_place.max(kept / (1 - b * _share(_ONE - farther)))
    grown = least([by_both, weight, by_place])
    total = readable(both) if grown <= 1 else decimal_up(ball(both) + grown.log())
    return total, decimal_up(ball(lost) * weight + none)


def _share(chance: int) -> Ball:
    return ball(Fraction(chance, 1 << _BITS))
