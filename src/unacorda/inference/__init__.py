"""Inference: estimates, models and intervals that are valid under differential privacy.

One row is one person, the number of rows is public, and neighbors differ by one replaced row. Each
name is loaded when it is first used.

estimates            means, quantiles, distributions and matrices of columns
hypothesis_tests     proportions, counts, means and ranks
regression, losses   models, and the engine that fits them to arrays or to tables of a session
diagnostics          tables of scores and residuals that judge a model
search, validation   choice of hyper-parameters
transformers         scaling and principal components
local                estimates and models from reports that devices randomize
contract             scikit-learn's names, and how fits read arrays and frames
sums, records        noisy sums over rows, columns and public bounds
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
