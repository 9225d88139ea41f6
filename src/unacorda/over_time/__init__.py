"""Answers over time: contribution bounds, noise and cost while rows still arrive.

This package knows no table and no engine. `bounds` has the contribution bounds of a person,
`sensitivity` the resulting sensitivity of a series, `encoders` the choice of the noise with the
least error, and `noise` the exact release of one step.
"""

# SPDX-License-Identifier: Apache-2.0
