r"""Exact float32 products, independent of a training's PyTorch settings.

Norms bound what a unit adds, up to the rounding of float32. Autocast, and short formats such as
TF32, would make them too small if places cancel.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from unacorda.extras import later

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["full_precision"]

torch: Any = later("torch")

_FULL: Final = frozenset({"ieee", "highest", "none"})
"""What PyTorch calls no short format; "none" where nothing was ever asked for."""


@contextmanager
def full_precision(of: Tensor) -> Iterator[None]:
    """No gradients, no autocast, and products of float32 in float32, on the device of a tensor."""
    backends = torch.backends.cuda, torch.backends.mkldnn
    products: list[Any] = [getattr(backend, "matmul", None) for backend in backends]
    if all(hasattr(one, "fp32_precision") for one in products):  # from PyTorch 2.9 on
        full, found = "ieee", [(one, one.fp32_precision) for one in products]
        choices = [(partial(setattr, one, "fp32_precision"), before) for one, before in found]
    else:
        full, before = "highest", torch.get_float32_matmul_precision()
        choices = [(torch.set_float32_matmul_precision, before)]
    changed = [(choose, before) for choose, before in choices if before not in _FULL]
    try:
        for choose, _ in changed:
            choose(full)
        with torch.no_grad(), torch.autocast(of.device.type, enabled=False):
            yield
    finally:
        for choose, before in changed:
            choose(before)
