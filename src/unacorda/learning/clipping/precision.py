r"""Exact float32 products, independent of a training's PyTorch settings.

Norms bound what a unit adds, up to the rounding of float32. Autocast, and short formats such as
TF32, would make them too small if places cancel.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from unacorda.extras import later

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["full_precision"]

torch: Any = later("torch")

_FULL: Final = frozenset({"ieee", "highest", "none"})
"""What PyTorch calls no short format; "none" where nothing was ever asked for."""


def full_precision(of: Tensor) -> AbstractContextManager[Any]:
    """No gradients, no autocast, and products of float32 in float32, on the device of a tensor."""
    backends = torch.backends.cuda, torch.backends.mkldnn
    products: list[Any] = [getattr(backend, "matmul", None) for backend in backends]
    if all(hasattr(one, "fp32_precision") for one in products):  # from PyTorch 2.9 on
        full, held = "ieee", [(one, one.fp32_precision) for one in products]
        choices = [(partial(setattr, one, "fp32_precision"), before) for one, before in held]
    else:
        full, before = "highest", torch.get_float32_matmul_precision()
        choices = [(torch.set_float32_matmul_precision, before)]
    changed = [(choose, before) for choose, before in choices if before not in _FULL]
    if changed or torch.is_autocast_enabled(of.device.type):
        return _changed(changed, full, of.device.type)
    found: AbstractContextManager[Any] = torch.no_grad()
    return found


@contextmanager
def _changed(choices: Sequence[tuple[Any, str]], full: str, device: str) -> Iterator[None]:
    """Other precisions for a while, and no autocast."""
    try:
        for choose, _ in choices:
            choose(full)
        with torch.no_grad(), torch.autocast(device, enabled=False):
            yield
    finally:
        for choose, before in choices:
            choose(before)
