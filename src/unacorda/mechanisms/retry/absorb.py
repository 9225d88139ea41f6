"""Never fail by falling back: run once, and where the loss is too high do without privacy."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from unacorda import checks
from unacorda.bits import RandomBits, SecureBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.parameters import Real, decimal_up, keep, readable
from unacorda.mechanisms.retry.runs import Number, Run, guarantee_of_run, probability, too_high
from unacorda.privacy import events
from unacorda.privacy.enclosure import context, mpf
from unacorda.privacy.guarantees import ApproxDP, PureDP

__all__ = ["AbsorbFailure"]

Output = TypeVar("Output")

_SECURE = SecureBits()


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsorbFailure:
    r"""Run a mechanism once; where its loss exceeds the limit, answer without privacy.

    guarantee: of one run, epsilon and delta; limit: the largest loss that is accepted; failure: a
    proved upper bound of the probability that the loss of one run exceeds the limit, **on every
    input**. It is yours to prove, from the mechanism's own tail, for the worst data set: the
    share of failures seen on this one is no such bound, and without one there is no privacy.
    The release is (epsilon, delta + (1 + e^epsilon) failure)-DP, and no smaller delta will do,
    since which outputs are good depends on the data; the loss itself may be anything.
    Source: Steinke, Differentially Private Algorithms that Never Fail, DifferentialPrivacy.org
    (with delta + failure, which is too small); proof in docs/proofs/retry.md, section 1.

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
        mp = context()
        return decimal_up(mpf(delta) + (1 + mp.exp(mpf(epsilon))) * mpf(failure))

    def release(
        self,
        run: Run[Output],
        *,
        loss: Callable[[Output], Number],
        fallback: Callable[[], Output],
        bits: RandomBits | None = None,
    ) -> Output:
        """The run's output, or where its loss is above the limit what the fallback returns.

        run: called once, with ``bits=``; ``functools.partial(mechanism.release, data)`` is one.
        loss: of an output, on the data; nothing of it leaves. NaN is above every limit. fallback:
        called only where it is needed; it may look at the data as it likes.
        The time may show that it was needed: the delta covers this too. What the three callables
        raise is raised, and the guarantee covers it only where they raise on no input.
        """
        output = run(bits=bits or _SECURE)
        return fallback() if too_high(loss(output), checks.exact("limit", self.limit)) else output
