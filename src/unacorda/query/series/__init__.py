"""Answers over time: one question about a table that grows, step by step, for one price.

`calendar` has the steps, `plan` what a series is made by, `answers` what is said of it before and
after, `stream` the series itself, and `bounds` the suggestion of a contribution bound.
"""

# SPDX-License-Identifier: Apache-2.0
