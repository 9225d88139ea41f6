"""Tests of the package; a package themselves, so that no installed one named `tests` hides them."""

# SPDX-License-Identifier: Apache-2.0
