"""What the engine asks of one part of a composition, before and after an abscissa is chosen."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Protocol

from unacorda.accounting.contour.series import Complexes, Floats


class Tilt(Protocol):
    """One part at abscissa c, certified; phi(t) = M(c + it) / M(c), all copies together."""

    @property
    def log_m(self) -> float:
        """The logarithm of M(c) of all copies."""

    @property
    def log_m_error(self) -> float:
        """A bound on the absolute error of log_m."""

    @property
    def mean(self) -> float:
        """The slope of the phase that `nodes` leaves out."""

    @property
    def slack(self) -> float:
        """Probability that was cut off, all copies together, rounded up."""

    def nodes(self, t: Floats) -> tuple[Complexes, Floats]:
        """The logarithm of phi(t) without the phase mean * t, and a bound on its absolute error."""

    def tail(self, t: float) -> float:
        """A bound of ln sup over t' >= t of |phi(t')|; at most 0."""


class Factor(Protocol):
    """One part of a composition in one direction: a law of the privacy loss, some copies of it."""

    @property
    def slack(self) -> float:
        """Probability that was cut off, all copies together, rounded up."""

    @property
    def limit(self) -> float:
        """The largest abscissa at which M is formed in floats."""

    def cumulants(self, cs: Floats) -> tuple[Floats, Floats, Floats]:
        """K = ln M, K' and K'' at abscissas cs; for planning, not certified."""

    def outside(self, cs: Floats, k: Floats) -> Floats:
        """About the tilted probability cut off, times copies; k is K(cs). For planning."""

    def planned_tail(self, c: float, t: float) -> float:
        """About what the tilt's tail(t) will be."""

    def log_m_upper(self, c: float) -> float:
        """A certified upper bound of K(c); infinite where none is at hand."""

    def tilt(self, c: float, *, last: float, most: int) -> Tilt | None:
        """The part at c, good for nodes up to t = last; None where it takes above `most` atoms."""
