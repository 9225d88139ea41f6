"""Selection of the best of many candidates, by noisy maxima of several kinds."""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
