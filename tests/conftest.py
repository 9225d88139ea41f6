"""Settings of all tests: Hypothesis draws the same examples in every run."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")
