"""The accountant: prices of events, loaded when they are first used.

``accounting.epsilon``, ``epsilon_interval``, ``delta``, ``delta_interval``, ``renyi``, ``rho``,
``tradeoff`` and ``explain`` price events; ``calibrate`` finds the least noise for a target;
``price`` and ``charge`` compute debits of ledgers; ``lower_bound`` is an error that no mechanism
can beat.
"""

# SPDX-License-Identifier: Apache-2.0

from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
