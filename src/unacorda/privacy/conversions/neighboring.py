"""From one neighboring relation to another.

Replacing a unit is removing one and adding another, two steps of add/remove (or of zero-out). The
way back does not exist: a mechanism may publish the number of rows and keep every replace-one
guarantee, yet it keeps no add/remove guarantee at all.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from fractions import Fraction

from unacorda.privacy.conversions.arguments import Real, non_negative, share
from unacorda.privacy.conversions.group import approx_dp_of_group
from unacorda.privacy.enclosure import context, float_down, mpf


def replace_one_from_add_remove(epsilon: Real, *, delta: Real) -> tuple[Fraction, float]:
    r"""(epsilon, delta) under replacement, of an (epsilon, delta)-DP mechanism under add/remove.

    Statement   (2 epsilon, (1 + e^epsilon) delta), the delta at most 1. The same from zero-out.
    Bound       upper; epsilon exact, delta rounded up.
    Edges       delta = 0 -> (2 epsilon, 0.0).
    Source      group privacy of two steps: approx_dp_of_group.

    >>> replace_one_from_add_remove(0.5, delta=0)
    (Fraction(1, 1), 0.0)
    """
    return approx_dp_of_group(epsilon, delta=delta, size=2)


def add_remove_from_replace_one(epsilon: Real, *, delta: Real) -> tuple[Fraction, float]:
    r"""The add/remove (epsilon, delta) that is enough for a replace-one target.

    Statement   (epsilon / 2, delta / (1 + e^{epsilon/2})).
    Bound       lower: whoever keeps the result under add/remove keeps the argument under
                replacement; never read it the other way round.
    Edges       delta = 0 -> delta 0.0.
    Source      the inverse of replace_one_from_add_remove.

    >>> add_remove_from_replace_one(1.0, delta=0)
    (Fraction(1, 2), 0.0)
    """
    non_negative(epsilon=epsilon)
    share(delta=delta)
    half = Fraction(epsilon) / 2
    return half, float_down(mpf(delta) / (1 + context().exp(mpf(half))))


def zero_out_from_replace_one(epsilon: Real, *, delta: Real) -> tuple[Fraction, Fraction]:
    r"""(epsilon, delta) under zero-out, of an (epsilon, delta)-DP mechanism under replacement.

    Statement   unchanged: an empty contribution is one of the contributions a unit may have.
    Bound       upper, exact.
    Edges       only where the mechanism accepts an empty contribution as a value.
    Source      the definitions of the two relations.
    """
    non_negative(epsilon=epsilon)
    share(delta=delta)
    return Fraction(epsilon), Fraction(delta)
