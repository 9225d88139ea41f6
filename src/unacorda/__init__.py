"""unacorda: differential privacy that people can use and experts can trust.

The names in `__init__.pyi` are the whole public face, each with the module that it lives in. They
are loaded when they are first used, so that ``import unacorda`` needs nothing outside the standard
library.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from unacorda._version import __version__ as __version__
from unacorda.faces import face

__all__, __getattr__, __dir__ = face(__name__, __file__)
