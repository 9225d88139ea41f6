"""Copies of an estimator that scikit-learn fits, with a warning on their composed budget.

Cross-validation and grid searches clone an estimator and fit the copies to overlapping rows.
`clone` makes copies share a count with their original. A fit counts if any function of scikit-learn
calls it. It does not count if this package calls it, as its searches price their fits themselves.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import threading
import warnings
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from unacorda.privacy.guarantees import Guarantee, RenyiDP

_SEARCHES: Final = "sklearn.model_selection"
_CHECKS: Final = "sklearn.utils.estimator_checks"
"""Calls from here fit made-up data."""

_ADVICE: Final = (
    " on the same rows. HeldOutSearch and CrossValidatedSearch of unacorda.inference keep one "
    "budget for a whole search. Scores that scikit-learn computes from the rows are not private"
)


@dataclass(slots=True, kw_only=True)
class _Copies:
    """The fits of all copies of one estimator, and the sums of what they spent."""

    fits: int = 0
    spent: dict[Any, Guarantee] = field(default_factory=dict)

    def add(self, budget: Guarantee) -> None:
        """Counts one more fit. Renyi guarantees add up at one order, the others by their kind."""
        kind = budget.alpha if isinstance(budget, RenyiDP) else type(budget)
        self.fits += 1
        self.spent[kind] = self.spent[kind] + budget if kind in self.spent else budget


_COPIES: Final[WeakKeyDictionary[Any, _Copies]] = WeakKeyDictionary()
_LOCK: Final = threading.Lock()


def note_copy(original: Any, copy: Any) -> None:
    """Lets a copy share the count of its original."""
    with _LOCK:
        _COPIES[copy] = _COPIES.setdefault(original, _Copies())


def count_fit(estimator: Any, budget: Guarantee) -> None:
    """Warns if scikit-learn fits a second or further copy, and states the composed budget.

    Call it from `fit` after the check of its arguments. In worker processes copies have no count;
    there the warning states the cost of several fits.
    """
    callers = _callers()
    if not callers:
        return
    name = type(estimator).__name__
    with _LOCK:
        copies = _COPIES.get(estimator)
        if copies is not None:
            copies.add(budget)
            fits, spent = copies.fits, " and ".join(map(str, copies.spent.values()))
    if copies is None:
        if any(module.startswith(_SEARCHES) for module in callers):
            message = (
                f"scikit-learn fits copies of one {name} in several processes, each with its whole "
                f"budget, {budget}: 5 fits spend up to {budget * 5}{_ADVICE}."
            )
            warnings.warn(message, UserWarning, stacklevel=3)
    elif fits > 1:
        message = (
            f"scikit-learn has fitted {fits} copies of one {name}, each with its whole budget: "
            f"together they spend up to {spent}{_ADVICE if fits == 2 else ' on the same rows'}."
        )
        warnings.warn(message, UserWarning, stacklevel=3)


def _callers() -> list[str]:
    """The modules of scikit-learn that called the fit, the nearest first.

    None of them where a fit of this package, or scikit-learn's checks of estimators, stands around.
    """
    frame = inspect.currentframe()
    for _ in range(3):  # out of here, `count_fit` and `fit`
        frame = frame.f_back if frame is not None else None
    found = []
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("unacorda.") or module == _CHECKS:
            return []
        if module.startswith("sklearn."):
            found.append(module)
        frame = frame.f_back
    return found
