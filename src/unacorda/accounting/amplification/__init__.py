"""Amplification: what sampling and shuffling add to privacy, each theorem with its relation."""

# SPDX-License-Identifier: Apache-2.0
