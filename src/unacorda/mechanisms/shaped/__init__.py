"""Noise of other shapes than Laplace and Gaussian: on numbers and on whole vectors."""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
