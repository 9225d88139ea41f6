"""Equal steps whose losses lie between two edges, with atoms at both: Laplace noise, sampled."""

# SPDX-License-Identifier: Apache-2.0
