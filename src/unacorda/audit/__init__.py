"""Audits: lower bounds on a mechanism's privacy loss, from its outputs."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda.audit.anytime import anytime, log_evidence
from unacorda.audit.bounds import Bound
from unacorda.audit.canary import Canaries, dirac, mislabelled
from unacorda.audit.exact import HockeyStick, exact
from unacorda.audit.f_dp import one_run_f_dp
from unacorda.audit.many_runs import many_runs
from unacorda.audit.one_run import one_run
from unacorda.audit.search import Finding, search

__all__ = [
    "Bound",
    "Canaries",
    "Finding",
    "HockeyStick",
    "anytime",
    "dirac",
    "exact",
    "log_evidence",
    "many_runs",
    "mislabelled",
    "one_run",
    "one_run_f_dp",
    "search",
]
