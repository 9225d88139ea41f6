r"""Private selection: the best of a random number of runs.

It is how hyper-parameters are tuned privately: a run draws one candidate setting, trains with it
and scores the result, all of it under differential privacy. Running it K times and keeping the
best costs little more than one run, however large K may be, as long as K is random, drawn apart
from the data, and never shown: of a known K the cost would grow with K.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeVar

from unacorda.bits import RandomBits, SecureBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.retry.runs import Number, Run, is_nan, number_of
from unacorda.mechanisms.retry.tries import draw_tries
from unacorda.privacy import events

__all__ = ["BestOf"]

Candidate = TypeVar("Candidate")

_SECURE = SecureBits()
_MOST: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BestOf:
    r"""Run a mechanism K times and release the best candidate with its score, and not K.

    event: `NegativeBinomialTries` or `PoissonTries` around the event of **one run**, which must
    cover the candidate and its score together: the score is noisy, never the true one. Both fix
    the law of K, and a cap on it where it has one. Under pure runs of epsilon the geometric law
    (shape 1) costs at most 3 epsilon, the logarithmic one (shape 0) 2 epsilon; other runs are
    priced by their curves. pad: always make as many runs as the cap, of which the first K count,
    so that the time says nothing of K; without it the time does, which no event covers.
    Source: Liu and Talwar 2019, arXiv:1811.07971; Papernot and Steinke 2022, arXiv:2110.03620;
    proofs in docs/proofs/selection.md.

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
        """How many runs count in the mean, to within rounding, and without the cap.

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
        """The best of the runs' pairs (candidate, score), or None where there was no run.

        run: called with ``bits=`` as often as K says; it takes all its randomness from there, and
        its pair costs the event's inner event. A higher score is better, the earliest of equal
        ones wins, and NaN is below every number. No run occurs only under `PoissonTries`.
        Raises InvalidParameter for what is no such pair. What a run raises is raised: whether it
        does must be as private as its output, so catch what the data can cause and return the
        candidate with the score -inf.
        """
        source = bits or _SECURE
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
