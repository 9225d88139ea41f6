r"""Checks of a model, before a row is read or in the graph of a step.

A unit's gradient must depend only on the unit's rows and the weights, and the clipped norm must
include all uses of all trained parameters.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from unacorda.errors import InvalidParameter
from unacorda.extras import later

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["check_apart", "check_losses", "check_modules", "check_optimizer", "check_uses"]

torch: Any = later("torch")

_UNLIKE: Final = 1e-2
"""Of the largest gradient of an example, by how much another one differs."""

_TRANSPARENT: Final = frozenset(
    {"ToCopyBackward0", "TBackward0", "TransposeBackward0", "ViewBackward0", "AliasBackward0"}
)
"""Nodes of the graph that hand a parameter on, changed in type or layout alone."""

_WRAPPERS: Final = frozenset(
    {"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule"}
)
"""Modules that add up gradients, or hand them on, in ways of their own."""


def check_modules(model: Any) -> None:
    """Raise InvalidParameter for a module that mixes examples or adds up gradients, by its name."""
    for name, module in model.named_modules():
        why = _mixes(module)
        if why:
            path = f"{name or 'model'}: {type(module).__name__}"
            raise InvalidParameter("model", path, expected=why)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.is_complex():
            expected = "real parameters: a complex one in two, of its real and imaginary parts"
            raise InvalidParameter("model", f"{name}: complex", expected=expected)


def _mixes(module: Any) -> str:
    nn = torch.nn
    if isinstance(module, nn.modules.batchnorm._BatchNorm):  # noqa: SLF001
        return "GroupNorm or LayerNorm in place of it: statistics of a batch mix its examples"
    if any(kind.__name__ in _WRAPPERS for kind in type(module).__mro__):
        return "the model inside, and group= of PrivateTraining, which sums over processes"
    if getattr(module, "track_running_stats", False):
        return "track_running_stats=False: running statistics are released with no noise"
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        if module.max_norm is not None:
            return "max_norm=None: it changes weights in the forward pass, by what examples hold"
        if module.scale_grad_by_freq:
            return "scale_grad_by_freq=False: frequencies are those of the batch"
    hooks = list(getattr(module, "_forward_pre_hooks", {}).values())
    if any(type(hook).__name__ == "SpectralNorm" for hook in hooks) or any(
        type(part).__name__ == "_SpectralNorm"
        for parts in getattr(module, "parametrizations", {}).values()
        for part in parts
    ):
        return "no spectral norm: its power iteration changes in every forward pass"
    return ""


def check_losses(losses: Any, *, examples: int | None = None) -> Tensor:
    """The losses, one number per example, with a graph; raises InvalidParameter for others."""
    expected = 'one number an example, such as cross_entropy(..., reduction="none")'
    shape = tuple(losses.shape) if torch.is_tensor(losses) else type(losses).__name__
    fits = torch.is_tensor(losses) and losses.dim() == 1 and losses.is_floating_point()
    if not fits or (examples is not None and len(losses) != examples):
        more = "" if examples is None else f", here ({examples},)"
        raise InvalidParameter("losses", shape, expected=expected + more)
    if losses.grad_fn is None:
        raise InvalidParameter(
            "losses", "without a graph", expected="those of this step, computed with gradients"
        )
    found: Tensor = losses
    return found


def check_uses(
    losses: Tensor, recorded: Collection[tuple[Any, Any]], names: Mapping[int, str]
) -> set[Any]:
    """Raise InvalidParameter if the graph uses a trained parameter outside its module.

    recorded: for every recorded use a node of the graph behind it, and the parameter; names: by the
    identity of trained parameters. Each edge into a parameter must belong to a recorded use that
    the losses depend on. Returns the nodes between the losses and the recorded ones.
    """
    sources: dict[Any, list[Any]] = {}  # of a node: those that lead to it, one for each edge
    leaves: dict[int, Any] = {}
    stack, seen = [losses.grad_fn], {losses.grad_fn}
    while stack:
        node = stack.pop()
        for following, _ in node.next_functions:
            if following is None:
                continue
            sources.setdefault(following, []).append(node)
            if following not in seen:
                seen.add(following)
                stack.append(following)
                if hasattr(following, "variable"):
                    leaves[id(following.variable)] = following

    def uses(node: Any) -> int:
        return sum(uses(source) if source.name() in _TRANSPARENT else 1 for source in sources[node])

    before: set[Any] = set()
    stack = [node for node, _ in recorded if node in seen]
    while stack:
        for source in sources.get(stack.pop(), ()):
            if source not in before:
                before.add(source)
                stack.append(source)
    known = Counter(id(parameter) for node, parameter in recorded if node in seen)
    for identity, leaf in leaves.items():
        if identity in names and uses(leaf) > known[identity]:
            raise InvalidParameter(
                "model",
                names[identity],
                expected="a parameter that is used in the forward pass of its own module alone: "
                "gradients of other uses would be left out of the norm",
            )
    return before


def check_apart(losses: Tensor, weights: Tensor | None, results: Iterable[tuple[Any, Any]]) -> None:
    """Raise InvalidParameter if gradients of an example depend on losses of others.

    results: of uses, the edge behind each and the shape of its result. Losses are scaled by
    different powers of two, which changes no digit of a result that depends on only one of them.
    """
    examples = len(losses)
    seeds = torch.ones_like(losses) if weights is None else weights.to(losses)
    scales = np.array([0.5 ** (place % 3) for place in range(examples)], dtype=np.float32)
    edges, shapes = zip(*results, strict=True)
    try:
        plain, scaled = (
            torch.autograd.grad((losses * each).sum(), edges, retain_graph=True, allow_unused=True)
            for each in (seeds, seeds * torch.from_numpy(scales).to(seeds))
        )
    except RuntimeError:  # of graphs that allow one backward pass
        return
    for shape, one, other in zip(shapes, plain, scaled, strict=True):
        if one is None or shape[0] % examples:
            continue
        # In NumPy: PyTorch would load a megabyte of code for this alone.
        first, second = (
            each.reshape(examples, -1).float().numpy(force=True) for each in (one, other)
        )
        alone = np.where(np.isfinite(first), first, 0) * scales[:, None]
        with np.errstate(all="ignore"):
            off = np.abs(second - alone)
        largest, held = np.abs(alone).max(1, keepdims=True), torch.finfo(one.dtype)
        allowed = _UNLIKE * largest + 1e-6 * largest.max() + 64 * held.tiny * held.eps
        if ((off > allowed) & (off < math.inf)).any():
            raise InvalidParameter(
                "losses",
                tuple(losses.shape),
                expected="each of one example alone: here what the model gave for an example "
                "changes the loss of another, as in losses that compare examples, or where views "
                "of examples are not stacked example by example",
            )


def check_optimizer(optimizer: Any, trained: dict[str, Any]) -> None:
    """Raise InvalidParameter for an optimizer that updates other parameters or needs a closure."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        shown = type(optimizer).__name__
        raise InvalidParameter("optimizer", shown, expected="a torch.optim optimizer")
    if isinstance(optimizer, torch.optim.LBFGS):
        expected = "one without closures: LBFGS evaluates the loss several times a step"
        raise InvalidParameter("optimizer", "LBFGS", expected=expected)
    known = {id(p) for p in trained.values()}
    foreign = [
        tuple(p.shape)
        for group in optimizer.param_groups
        for p in group["params"]
        if p.requires_grad and id(p) not in known
    ]
    if foreign:
        expected = "an optimizer of this model's parameters alone"
        raise InvalidParameter("optimizer", f"parameters of shapes {foreign}", expected=expected)
