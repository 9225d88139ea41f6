"""What the accountant knows of each kind of event: its theorem, its costs, its laws.

One class of rules for a kind, in the file named as that of its event under `privacy/events`; what
is asked of an event is asked of `rules_of(event)`. Every file of this package registers its own.
"""

# SPDX-License-Identifier: Apache-2.0

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
