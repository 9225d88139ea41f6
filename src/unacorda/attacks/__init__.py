"""Attacks on releases, with and without privacy."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.attacks.attack import Attack
from unacorda.attacks.differencing import Exposed, differencing
from unacorda.attacks.likelihood import likelihood_ratio, logit_confidence
from unacorda.attacks.linkage import Link, linkage
from unacorda.attacks.membership import expected_power, membership
from unacorda.attacks.reconstruction import Reconstruction, reconstruction
from unacorda.attacks.regions import ErrorRegion, error_region

__all__ = [
    "Attack",
    "ErrorRegion",
    "Exposed",
    "Link",
    "Reconstruction",
    "differencing",
    "error_region",
    "expected_power",
    "likelihood_ratio",
    "linkage",
    "logit_confidence",
    "membership",
    "reconstruction",
]
