r"""Rules: from a module's input and the gradient of its output to gradients of examples.

A rule is a function of the module, its input and the gradient of its output, both with examples
first. It yields each parameter and its `GradientPart`. One line of `rule_of` adds a kind of module.
Modules without a rule run under `vmap` with a copy of their parameters for each example.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from unacorda.extras import later
from unacorda.learning.clipping.parts import (
    GradientLookups,
    GradientPart,
    GradientProducts,
    GradientRows,
    at_once,
    rows_are_small,
)

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Rule", "linear_parts", "lookup_parts", "rule_of"]

torch: Any = later("torch")

Rule = Callable[[Any, "Tensor", "Tensor"], Iterator[tuple[Any, GradientPart]]]


def _wanted(parameter: Any) -> bool:
    return parameter is not None and parameter.requires_grad


def _places(values: Tensor) -> Tensor:
    """(examples, ..., width) as (examples, places, width)."""
    return values.reshape(values.shape[0], -1, values.shape[-1])


def linear_parts(
    weight: Any, bias: Any, given: Tensor, gradient: Tensor
) -> Iterator[tuple[Any, GradientPart]]:
    """Of given @ weight^T + bias."""
    given, gradient = _places(given), _places(gradient)
    if _wanted(weight):
        yield weight, GradientProducts(gradient, given, weight.shape).settled()
    if _wanted(bias):
        yield bias, GradientRows([gradient[:, 0] if gradient.shape[1] == 1 else gradient.sum(1)])


def _linear(module: Any, given: Tensor, gradient: Tensor) -> Iterator[tuple[Any, GradientPart]]:
    return linear_parts(module.weight, module.bias, given, gradient)


def _convolution(
    module: Any, given: Tensor, gradient: Tensor
) -> Iterator[tuple[Any, GradientPart]]:
    """Every place of the output has a patch of the input: a product over patches."""
    examples, groups, shape = len(given), module.groups, module.weight.shape
    outputs = gradient.reshape(examples, groups, module.out_channels // groups, -1)
    if _wanted(module.weight):
        places, inputs = outputs.shape[3], shape[1:].numel()
        if groups > 1 or rows_are_small(places, module.out_channels, inputs):
            size = at_once(groups * inputs * max(places, module.out_channels // groups))
            pieces = zip(outputs.split(size), given.split(size), strict=True)
            pairs = ((left, _patches(module, own).transpose(2, 3)) for left, own in pieces)
            yield module.weight, GradientRows.products(pairs, shape)
        else:
            patches = _patches(module, given)
            left, right = outputs[:, 0].transpose(1, 2), patches[:, 0].transpose(1, 2)
            yield module.weight, GradientProducts(left, right, shape)
    if _wanted(module.bias):
        yield module.bias, GradientRows([outputs.sum(3).flatten(1)])


def _patches(module: Any, given: Tensor) -> Tensor:
    """(examples, groups, inputs of a group times the kernel, places of the output)."""
    if module.padding_mode != "zeros" or module.padding == "same":
        mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
        widths = module._reversed_padding_repeated_twice  # noqa: SLF001
        given = torch.nn.functional.pad(given, widths, mode=mode)
        padding = (0,) * len(module.kernel_size)
    else:
        padding = (0,) * len(module.kernel_size) if module.padding == "valid" else module.padding
    if any(padding):
        given = torch.nn.functional.pad(given, [p for one in reversed(padding) for p in (one, one)])
    for place, size in enumerate(module.kernel_size):
        reach = module.dilation[place] * (size - 1) + 1
        given = given.unfold(2 + place, reach, module.stride[place])[..., :: module.dilation[place]]
    count = len(module.kernel_size)
    order = (0, 1, *range(2 + count, 2 + 2 * count), *range(2, 2 + count))
    moved = given.permute(order)  # the channels, then the kernel, then the places
    places = moved.shape[2 + count :].numel()
    found: Tensor = moved.reshape(len(moved), module.groups, -1, places)
    return found


def lookup_parts(
    weight: Any, padding: int | None, given: Tensor, gradient: Tensor
) -> Iterator[tuple[Any, GradientLookups]]:
    """Of the rows of weight at given, that of the padding a constant."""
    if padding is not None:
        gradient = gradient * (given != padding).unsqueeze(-1)
    index = given.reshape(len(given), -1)
    yield weight, GradientLookups(index, _places(gradient), weight.shape)


def _embedding(module: Any, given: Tensor, gradient: Tensor) -> Iterator[tuple[Any, GradientPart]]:
    # Places are those of the batch's shape; of bags they would be those of the longest.
    for weight, part in lookup_parts(module.weight, module.padding_idx, given, gradient):
        yield weight, part.settled()


def _normalized(values: Tensor, shape: Any) -> Tensor:
    """Sums over all places, (examples, *shape)."""
    return values.reshape(len(values), -1, *shape).sum(1)


def _layer_norm(module: Any, given: Tensor, gradient: Tensor) -> Iterator[tuple[Any, GradientPart]]:
    shape = module.normalized_shape
    if _wanted(module.weight):
        scaled = torch.nn.functional.layer_norm(given, shape, None, None, module.eps)
        yield module.weight, GradientRows([_normalized(gradient * scaled, shape)])
    if _wanted(module.bias):
        yield module.bias, GradientRows([_normalized(gradient, shape)])


def _rms_norm(module: Any, given: Tensor, gradient: Tensor) -> Iterator[tuple[Any, GradientPart]]:
    shape = module.normalized_shape
    scaled = torch.nn.functional.rms_norm(given, shape, None, module.eps)
    yield module.weight, GradientRows([_normalized(gradient * scaled, shape)])


def _group_norm(module: Any, given: Tensor, gradient: Tensor) -> Iterator[tuple[Any, GradientPart]]:
    if _wanted(module.weight):
        scaled = torch.nn.functional.group_norm(given, module.num_groups, None, None, module.eps)
        yield module.weight, GradientRows([(gradient * scaled).flatten(2).sum(2)])
    if _wanted(module.bias):
        yield module.bias, GradientRows([gradient.flatten(2).sum(2)])


def rule_of(module: Any) -> Rule | None:
    """The rule of a module, by its very class: a subclass may compute something else."""
    nn = torch.nn
    rules: dict[Any, Rule] = {
        nn.Linear: _linear,
        nn.Conv1d: _convolution,
        nn.Conv2d: _convolution,
        nn.Conv3d: _convolution,
        nn.Embedding: _embedding,
        nn.LayerNorm: _layer_norm,
        nn.RMSNorm: _rms_norm,
        nn.GroupNorm: _group_norm,
    }
    rule = rules.get(type(module))
    if rule is _embedding and (module.max_norm is not None or module.scale_grad_by_freq):
        return None  # both mix examples: refused by the checks
    return rule
