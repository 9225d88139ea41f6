"""The web page: HTML made on the server, which works without script.

Every screen calls the service as the JSON routes do; nothing is spent but by a form that says what
it costs.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations
