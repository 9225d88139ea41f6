"""Theorems that turn one guarantee into another, each a pure function with its direction.

Names are ``<target>_from_<source>``. *Bound upper*: what satisfies the source satisfies the target
returned. *Bound lower*: the result is the largest guarantee of the target's kind that still fits
into the source. Numbers are floats or Fractions, a float being the number it holds; results are
floats rounded to the safe side, or exact Fractions where the formula is rational. A negative or
non-finite number, or a delta outside [0, 1], is InvalidParameter.
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
