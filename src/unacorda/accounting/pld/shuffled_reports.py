"""The curve of one shuffled release: above by its bounds of delta, below by one attained pair.

Of binary answers the pair is the number of ones, where all others hold a zero; of more categories
it is how many more answers are of the first than of the second category, where all others hold the
third. Each other answer then adds 1 or -1 with probability q each, which is Bin(n - 1, b) less
another one, b (1 - b) = q.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math

import numpy as np

from unacorda.accounting.amplification.binomials import CountLaw
from unacorda.accounting.amplification.events import delta_of_shuffled_event
from unacorda.accounting.pld.sources import atoms_of_pair, curve_of_atoms
from unacorda.accounting.pld.tables import laid_down
from unacorda.accounting.profiles.boxes import Array
from unacorda.accounting.profiles.curves import Curve, nothing
from unacorda.checks import exact
from unacorda.privacy.enclosure import float_down, mpf
from unacorda.privacy.events import Pure, RandomizedResponse, Shuffled

_FAINT = 1e-16
"""As far as delta is above this, nodes are near, most of all where losses are likely."""
_BODY = np.concatenate((np.linspace(0.0, 0.36, 22), np.linspace(0.4, 1.0, 17)))
_TAIL = np.array([1.2, 1.5, 2.0, 4.0])
_CLOSER = 1.4
_REACH = 14.0
"""Standard deviations of binomial laws that are kept."""
_KEPT = 1e20
"""Masses are taken that exceed by this what may be missing of them."""
_TRUSTED = 1e-10
"""What chances, which are floats, may change of a mass, relative."""
_MOST = 10**7
_LARGEST_EPSILON = 30


def curve_of_shuffled(event: Shuffled) -> Curve:
    """The curve of shuffled reports, under replacement, which is the same in both directions.

    Raises UnsupportedEvent where the local report is not pure.

    Bound       above, by chords between certified deltas; below, of one pair of datasets.
    Source      delta_of_shuffled_event; docs/proofs/amplification.md, Sections 9 and 10.
    """

    def delta(epsilon: float) -> float:
        return delta_of_shuffled_event(event, epsilon=epsilon).upper

    end = 8 / math.sqrt(event.count)  # about
    while delta(end) > _FAINT and end < 1e3:
        end *= _CLOSER
    while end > 1e-9 and delta(end / _CLOSER) <= _FAINT:
        end /= _CLOSER
    nodes = end * np.concatenate((_BODY, _TAIL))
    deltas = np.minimum.accumulate([delta(float(node)) for node in nodes])
    places = np.exp(nodes)

    def profile(epsilons: Array) -> Array:
        """Chords in e^epsilon, which lie above a profile."""
        found = np.interp(np.exp(np.minimum(epsilons, 700.0)), places, deltas) * (1 + 1e-12)
        return np.asarray(np.minimum(found + 1e-300, 1.0))

    return laid_down(profile, profile, attained=_attained(event), places=nodes.tolist())


def _attained(event: Shuffled) -> Curve:
    report, others = event.event, event.count - 1
    if not isinstance(report, Pure | RandomizedResponse) or others >= _MOST:
        return nothing()
    local = float_down(mpf(exact("epsilon", report.epsilon)))
    if local > _LARGEST_EPSILON:
        return nothing()
    grown = math.exp(local)
    categories = report.categories if isinstance(report, RandomizedResponse) else 2 + (grown > 2)
    each = 1 / (grown + categories - 1)
    if categories == 2:
        law, adds = CountLaw.binomial(others, each, reach=_REACH), [grown * each, each]
    elif each <= 0.25:
        part = CountLaw.binomial(others, 2 * each / (1 + math.sqrt(1 - 4 * each)), reach=_REACH)
        law, adds = part.plus(part.turned(0)), [each, 1 - (grown + 1) * each, grown * each]
    else:
        return nothing()
    first, second = (np.convolve(law.masses, one) for one in (adds, adds[::-1]))
    if law.edge:
        whole = np.pad(law.masses, len(adds) - 1)
        views = np.lib.stride_tricks.sliding_window_view(whole, len(adds))
        held = views.min(axis=1) >= _KEPT * law.edge
        first, second = first[held], second[held]
    return curve_of_atoms(atoms_of_pair(first, second, trust=4 * law.error + _TRUSTED))
