r"""Modules with several weights, written as products that are recorded one by one.

Attention, recurrent layers and bags of embeddings compute in one kernel what the rules need in
parts. Each function here takes the module, a recorded product `linear(given, weight, bias)` or a
recorded `lookup(index, weight, padding)`, and the arguments of the module's forward pass.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from unacorda.errors import InvalidParameter
from unacorda.extras import later

__all__ = ["composite_of"]

torch: Any = later("torch")

Linear = Callable[[Any, Any, Any], Any]
Lookup = Callable[[Any, Any, Any], Any]


def composite_of(module: Any, *, linear: Linear, lookup: Lookup) -> Callable[..., Any] | None:
    """The forward pass of a module in recorded parts, by its very class; None for others."""
    nn = torch.nn
    if type(module) is nn.MultiheadAttention:
        plain = module._qkv_same_embed_dim and module.bias_k is None  # noqa: SLF001
        fits = plain and not module.add_zero_attn
        return partial(_attention, module, linear) if fits else None
    if type(module) is nn.EmbeddingBag:
        return partial(_bag, module, lookup)
    cells = {nn.RNN: _simple, nn.LSTM: _lstm, nn.GRU: _gru}
    cell = cells.get(type(module))
    return None if cell is None else partial(_recurrent, cell, module, linear)


def _bag(
    module: Any, lookup: Lookup, index: Any, offsets: Any = None, per_sample_weights: Any = None
) -> Any:
    """As `torch.nn.EmbeddingBag.forward`; bags that begin at offsets are padded to one length."""
    there, weights = torch.ones_like(index, dtype=torch.bool), per_sample_weights
    if index.dim() == 1:
        ends = offsets[1:] if module.include_last_offset else offsets.new_tensor([len(index)])
        starts = offsets[:-1] if module.include_last_offset else offsets
        lengths = torch.diff(torch.cat([starts, ends[-1:]]))
        size = int(lengths.max()) if len(lengths) else 0
        there = torch.arange(size, device=index.device) < lengths[:, None]
        places = (starts[:, None] + torch.arange(size, device=index.device)) * there
        index = index[places]
        weights = None if weights is None else weights[places]
    if module.padding_idx is not None:
        there = there & (index != module.padding_idx)
    rows = lookup(index, module.weight, module.padding_idx)
    if module.mode == "max":
        lowest = rows.masked_fill(~there[:, :, None], -math.inf).amax(1)
        return lowest.masked_fill(~there.any(1)[:, None], 0.0)
    shares = there.to(rows) if weights is None else there * weights
    total = (rows * shares[:, :, None]).sum(1)
    return total / there.sum(1, keepdim=True).clamp(min=1) if module.mode == "mean" else total


def _attention(  # noqa: PLR0917
    module: Any,
    linear: Linear,
    query: Any,
    key: Any,
    value: Any,
    key_padding_mask: Any = None,
    need_weights: Any = True,  # noqa: FBT002
    attn_mask: Any = None,
    average_attn_weights: Any = True,  # noqa: FBT002
    is_causal: Any = False,  # noqa: FBT002
) -> tuple[Any, Any]:
    """As `torch.nn.MultiheadAttention.forward`, of batches."""
    if query.dim() != 3:
        raise InvalidParameter("query", tuple(query.shape), expected="three sizes, with examples")
    same = query is key is value
    if not module.batch_first:
        query, key, value = (each.transpose(0, 1) for each in (query, key, value))
    weight, bias = module.in_proj_weight, module.in_proj_bias
    if same:
        parts = linear(query, weight, bias).chunk(3, dim=-1)
    else:
        parts = tuple(
            linear(each, weight, bias).chunk(3, dim=-1)[place]
            for place, each in enumerate((query, key, value))
        )
    heads, width = module.num_heads, module.head_dim
    queries, keys, values = (each.unflatten(2, (heads, width)).transpose(1, 2) for each in parts)
    scores = queries @ keys.transpose(2, 3) / math.sqrt(width)
    if attn_mask is not None:
        mask = attn_mask
        if mask.dim() == 3:
            mask = mask.reshape(-1, heads, *mask.shape[1:])
        scores = scores.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    elif is_causal:
        future = torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    if key_padding_mask is not None:
        mask = key_padding_mask[:, None, None, :]
        scores = scores.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    shares = scores.softmax(-1)
    dropped = torch.nn.functional.dropout(shares, module.dropout, module.training)
    mixed = (dropped @ values).transpose(1, 2).flatten(2)
    found = linear(mixed, module.out_proj.weight, module.out_proj.bias)
    found = found if module.batch_first else found.transpose(0, 1)
    if not need_weights:
        return found, None
    return found, dropped.mean(1) if average_attn_weights else dropped


def _recurrent(cell: Any, module: Any, linear: Linear, given: Any, state: Any = None) -> Any:
    """As the forward pass of `torch.nn.RNN`, LSTM and GRU, of batches that are no packed ones."""
    if not torch.is_tensor(given) or given.dim() != 3:
        shown = type(given).__name__
        raise InvalidParameter("input", shown, expected="a padded tensor with three sizes")
    inner = given if module.batch_first else given.transpose(0, 1)
    directions, ends = 2 if module.bidirectional else 1, []
    states = None if state is None else (state if isinstance(state, tuple) else (state,))
    for layer in range(module.num_layers):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            begin = None if states is None else tuple(each[place] for each in states)
            suffix = f"_l{layer}" + ("_reverse" if direction else "")
            weights = _Weights(module, suffix, reverse=bool(direction))
            output, end = _pass(partial(cell, module), weights, linear, inner, begin)
            outputs.append(output)
            ends.append(end)
        inner = torch.cat(outputs, 2)
        if module.dropout and layer < module.num_layers - 1:
            inner = torch.nn.functional.dropout(inner, module.dropout, module.training)
    found = inner if module.batch_first else inner.transpose(0, 1)
    last = tuple(torch.stack(each) for each in zip(*ends, strict=True))
    return found, last if isinstance(module, torch.nn.LSTM) else last[0]


@dataclass(frozen=True, slots=True)
class _Weights:
    """The weights of one layer in one direction."""

    module: Any
    suffix: str
    reverse: bool

    def of(self, name: str) -> Any:
        """A weight or bias; None where there is none."""
        return getattr(self.module, f"{name}{self.suffix}", None)

    def begin(self, given: Any) -> tuple[Any, ...]:
        """The state before the first time: zeros."""
        module = self.module
        sizes = [module.proj_size or module.hidden_size]
        if isinstance(module, torch.nn.LSTM):
            sizes.append(module.hidden_size)
        return tuple(given.new_zeros(len(given), size) for size in sizes)


def _pass(
    cell: Any, weights: _Weights, linear: Linear, given: Any, state: Any
) -> tuple[Any, tuple[Any, ...]]:
    """One layer in one direction: outputs of all times, and the state at the end."""
    inputs = linear(given, weights.of("weight_ih"), weights.of("bias_ih"))
    state = weights.begin(given) if state is None else state
    outputs, times = [], range(given.shape[1])
    for time in reversed(times) if weights.reverse else times:
        hidden = linear(state[0], weights.of("weight_hh"), weights.of("bias_hh"))
        state = cell(inputs[:, time], hidden, state)
        projection = weights.of("weight_hr")
        if projection is not None:
            state = (linear(state[0], projection, None), *state[1:])
        outputs.append(state[0])
    return torch.stack(outputs[::-1] if weights.reverse else outputs, 1), state


def _simple(module: Any, given: Any, hidden: Any, state: Any) -> tuple[Any, ...]:
    del state
    total = given + hidden
    return (total.tanh() if module.nonlinearity == "tanh" else total.relu(),)


def _lstm(module: Any, given: Any, hidden: Any, state: Any) -> tuple[Any, ...]:
    del module
    enter, forget, inner, leave = (given + hidden).chunk(4, dim=1)
    cell = forget.sigmoid() * state[1] + enter.sigmoid() * inner.tanh()
    return leave.sigmoid() * cell.tanh(), cell


def _gru(module: Any, given: Any, hidden: Any, state: Any) -> tuple[Any, ...]:
    del module
    (reset_in, keep_in, new_in), (reset, keep, new) = given.chunk(3, 1), hidden.chunk(3, 1)
    keep = (keep_in + keep).sigmoid()
    new = (new_in + (reset_in + reset).sigmoid() * new).tanh()
    return ((1 - keep) * new + keep * state[0],)
