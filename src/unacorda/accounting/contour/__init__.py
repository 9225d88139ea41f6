"""The contour engine: delta and epsilon of a composition by quadrature at the saddle point."""

# SPDX-License-Identifier: Apache-2.0
