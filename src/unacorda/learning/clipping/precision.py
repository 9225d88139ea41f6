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
    try:  # from PyTorch 2.9 on
        cuda, cpu = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
        held: tuple[str, ...] = cuda.fp32_precision, cpu.fp32_precision
    except AttributeError:
        held = (torch.get_float32_matmul_precision(),)
    if _FULL.issuperset(held) and not torch.is_autocast_enabled(of.device.type):
        found: AbstractContextManager[Any] = torch.no_grad()
        return found
    return _changed(held, of.device.type)


@contextmanager
def _changed(held: Sequence[str], device: str) -> Iterator[None]:
    """Full precision in place of what is held, for a while, and no autocast."""
    if len(held) == 1:
        full, choices = "highest", [torch.set_float32_matmul_precision]
    else:
        products = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
        full, choices = "ieee", [partial(setattr, one, "fp32_precision") for one in products]
    changed = [pair for pair in zip(choices, held, strict=True) if pair[1] not in _FULL]
    try:
        for choose, _ in changed:
            choose(full)
        with torch.no_grad(), torch.autocast(device, enabled=False):
            yield
    finally:
        for choose, before in changed:
            choose(before)
