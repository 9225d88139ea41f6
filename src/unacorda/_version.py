"""The version of the package: read by its build and by what it writes."""

# SPDX-License-Identifier: Apache-2.0

__version__ = "0.2.0"
