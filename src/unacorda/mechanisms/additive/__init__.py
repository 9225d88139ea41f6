"""Additive mechanisms: a number or an array plus noise of a known law.

Each is a frozen value that says what its release costs (`event`) and does it (`release`). Numbers
written as floats mean the decimals they print as, so a scale of 0.3 is 3/10 exactly, in the noise
and in the event alike.
"""

# SPDX-License-Identifier: Apache-2.0
