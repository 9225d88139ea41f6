"""Local privacy: every device randomizes its own value, and the server estimates shares or a mean.

A report is drawn by comparing random 64-bit words with integer thresholds, so its distribution is
exactly the stated one. All its probabilities are rational, the ratio of any two of them for two
inputs is at most e^epsilon, and the server's estimators are unbiased for exactly these numbers. The
proofs are in docs/proofs/local.md.

A device calls `encode`, for one value or millions. At the server `tally` counts reports (tallies of
batches add up), `estimate` turns a tally into `Frequencies`, and `aggregate` does both. `variance`
predicts the error before any value is seen.
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
