r"""Products of float32 as such, whatever a training asks of PyTorch for its own passes.

Norms bound what a unit adds, to the rounding of float32. Autocast, and short formats of products
such as TF32, would make them too small where places cancel.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from unacorda.extras import later

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["full_precision"]

torch: Any = later("torch")

_FULL: Final = "ieee"


@contextmanager
def full_precision(of: Tensor) -> Iterator[None]:
    """No gradients, no autocast, and products of float32 in float32, on the device of a tensor."""
    backends = torch.backends.cuda, torch.backends.mkldnn
    products: list[Any] = [getattr(backend, "matmul", None) for backend in backends]
    by_backend = all(hasattr(one, "fp32_precision") for one in products)  # from PyTorch 2.9 on
    if by_backend:
        before = [one.fp32_precision for one in products]
    else:
        before = [torch.get_float32_matmul_precision()]

    def choose(chosen: list[str]) -> None:
        if not by_backend:
            torch.set_float32_matmul_precision(chosen[0])
            return
        for one, precision in zip(products, chosen, strict=True):
            one.fp32_precision = precision

    choose([_FULL] * len(products) if by_backend else ["highest"])
    try:
        with torch.no_grad(), torch.autocast(of.device.type, enabled=False):
            yield
    finally:
        choose(before)
