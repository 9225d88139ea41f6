"""Mechanisms whose error adapts to the actual data, not to the worst case.

They release a statistic, such as ``Median(lower=0, upper=120)``, and are loaded when first used.
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
