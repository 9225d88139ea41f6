# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.mechanisms.sparse_vector.threshold import NumericSparse as NumericSparse
from unacorda.mechanisms.sparse_vector.threshold import SparseVector as SparseVector
