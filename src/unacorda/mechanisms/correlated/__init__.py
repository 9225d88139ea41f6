"""Correlated noise: errors of many answers cancel, since they share the same draws."""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
