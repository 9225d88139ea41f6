"""Repeated runs: mechanisms that never fail, and the best of a random number of runs."""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
