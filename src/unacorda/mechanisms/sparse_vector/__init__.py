"""The sparse vector technique: which questions of a stream pass a threshold."""

# SPDX-License-Identifier: Apache-2.0
