"""A smooth cut of a law on the line: the part of it whose noisy copy falls between two places."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from unacorda.accounting.contour.series import Floats

SHARE_ERROR = 1e-14
"""log_ndtr(z) counts as right within (1 + z^2) times this, relative, its argument rounded."""

_LOG_ROOT = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The piece of a law with the weight P(low < x + width Z < high), Z standard normal.

    low may be -inf, high inf; between two numbers lie at least two widths. log_norm: ln of the
    piece's probability, with its absolute error; drift: (P - Q) / norm of the piece's masses
    under P and Q, with its absolute error; log_null: ln of the mass under the other law over the
    norm, rounded up.
    """

    low: float
    high: float
    width: float
    log_norm: float = 0.0
    norm_error: float = 0.0
    drift: float = 0.0
    drift_error: float = 0.0
    log_null: float = 0.0

    def log_share(self, x: Floats) -> Floats:
        """The logarithm of the weight."""
        return self.log_share_and_error(x)[0]

    def log_share_and_error(self, x: Floats) -> tuple[Floats, Floats]:
        """The logarithm of the weight, and a bound on its absolute error."""
        up, down = (x - self.low) / self.width, (self.high - x) / self.width
        if math.isinf(self.low):
            return _log_normal(down)
        if math.isinf(self.high):
            return _log_normal(up)
        near = up < down  # the nearer end gives the leading term, the other one is taken off
        level, slip = _log_normal(np.where(near, up, down))
        beyond, also = _log_normal(-np.where(near, down, up))
        part = np.exp(beyond - level)
        share: Floats = level + np.log1p(-part)
        wrong: Floats = 1.3 * (slip * (1 + part) + part * also) + 1e-15 * np.abs(share)
        return share, wrong

    def falling(self, x: Floats) -> Floats:
        """The normal density about `low` over the weight, rounded up: it falls in x."""
        return self._hazard(x, self.low)

    def rising(self, x: Floats) -> Floats:
        """The normal density about `high` over the weight, rounded up: it rises in x."""
        return self._hazard(x, self.high)

    def _hazard(self, x: Floats, place: float) -> Floats:
        if math.isinf(place):
            return np.zeros_like(x)
        z = (x - place) / self.width
        level = -0.5 * z * z - _LOG_ROOT - math.log(self.width) - self.log_share(x)
        hazard: Floats = np.exp(np.minimum(level + 1e-9, 600.0))
        return hazard


def _log_normal(z: Floats) -> tuple[Floats, Floats]:
    level: Floats = log_ndtr(z)
    error: Floats = SHARE_ERROR * (1 + z * z) * np.abs(level)
    return level, error
