"""Attacks: what a release tells of people, with and without privacy."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from tacet.attacks.attack import Attack
from tacet.attacks.differencing import Exposed, differencing
from tacet.attacks.likelihood import likelihood_ratio, logit_confidence
from tacet.attacks.linkage import Link, linkage
from tacet.attacks.membership import expected_power, membership
from tacet.attacks.reconstruction import Reconstruction, reconstruction
from tacet.attacks.regions import ErrorRegion, error_region

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
