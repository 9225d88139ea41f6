# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.mechanisms.local.categories import RandomizedResponse as RandomizedResponse
from unacorda.mechanisms.local.categories import SubsetSelection as SubsetSelection
from unacorda.mechanisms.local.categories import UnaryEncoding as UnaryEncoding
from unacorda.mechanisms.local.directions import Directions as Directions
from unacorda.mechanisms.local.hashing import HadamardResponse as HadamardResponse
from unacorda.mechanisms.local.hashing import LocalHashing as LocalHashing
from unacorda.mechanisms.local.means import Duchi as Duchi
from unacorda.mechanisms.local.means import Hybrid as Hybrid
from unacorda.mechanisms.local.means import Piecewise as Piecewise
