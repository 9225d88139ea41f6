"""Privacy loss distributions: composition on a grid by fast Fourier transform, certified."""

# SPDX-License-Identifier: Apache-2.0
