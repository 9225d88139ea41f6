"""The web page: HTML from the server, which works without scripts.

Every screen calls the service as the JSON routes do. Only a form that states its cost can spend.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations
