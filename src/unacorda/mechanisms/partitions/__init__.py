"""Partition selection: which keys of a table may be released, and with which noisy counts."""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
