"""Mechanisms that release a number, an array or a choice.

Each is an immutable value with an `event`, the cost of a release, and a `release`; see `protocol`
for the common parts. The usual mechanisms are here, the others by task:

- `shaped`: noise of other shapes, and on whole vectors;
- `selection`: the best of many candidates; `sparse_vector`: questions above a threshold;
- `partitions`: keys that are private themselves;
- `correlated`: prefix sums, marginals and workloads of linear queries;
- `data_dependent`: medians, quantiles, sums and others with an error that follows the data;
- `local`: reports that are randomized by their owners;
- `retry`: private selection among runs, and mechanisms that never fail;
- `contributions`: clipping, and sums that are exact.

They are loaded when they are first used.
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
