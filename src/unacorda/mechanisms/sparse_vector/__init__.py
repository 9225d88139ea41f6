"""The sparse vector technique: which questions of a stream exceed a threshold."""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
