"""mpmath for several threads at once."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from mpmath.libmp import ln2_fixed, pi_fixed

__all__ = ["CONSTANT_BITS", "lengthen_constants"]

CONSTANT_BITS = 4096
"""Binary digits up to which mpmath may be used from several threads at once."""


def lengthen_constants() -> None:
    """Compute pi and ln 2 far enough that no thread lengthens them later.

    mpmath keeps both in a memo; two threads that lengthen it at once can read it half-written and
    get a wrong value. To be called where a module that uses mpmath is imported.

    >>> lengthen_constants()
    """
    pi_fixed(CONSTANT_BITS)
    ln2_fixed(CONSTANT_BITS)
