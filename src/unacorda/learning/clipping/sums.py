r"""Sums of clipped gradients from one forward and one backward pass.

Hooks keep the inputs of modules, and the edges of the graph at their outputs. The backward pass
stops at these edges: only the clipped sum of weight gradients is computed. Source: Li, Tramer,
Liang, Hashimoto 2022, arXiv:2110.05679; Bu, Wang, Zha, Karypis 2023, arXiv:2210.00038 (one pass).
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from unacorda.errors import InvalidParameter
from unacorda.extras import later, require
from unacorda.learning.clipping.arithmetic import Arithmetic, block_of, check_size, rounding_of
from unacorda.learning.clipping.bounds import COUNT, ClippingBound, bound_of
from unacorda.learning.clipping.checks import (
    check_apart,
    check_losses,
    check_modules,
    check_uses,
)
from unacorda.learning.clipping.composites import composite_of
from unacorda.learning.clipping.parts import (
    GradientPart,
    GradientRows,
    UnitWeights,
    merged,
    square_norms,
)
from unacorda.learning.clipping.precision import full_precision
from unacorda.learning.clipping.rules import Rule, linear_parts, lookup_parts, rule_of
from unacorda.learning.shown_losses import LOSS, ShownLosses

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ClippedSums"]

torch: Any = later("torch")

_TRIED: Final = 3
"""Batches in which losses are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class _Use:
    """One use of parameters: what they met, and the edge and shape of what came of it."""

    given: Any
    edge: Any
    shape: Any
    parameters: tuple[Any, ...]
    rule: Callable[[Any, Any], Iterator[tuple[Any, GradientPart]]]
    folds: bool


class _Attached:
    """A hook, or the forward pass of a module, for training; copies of a module go without it."""

    def __init__(self, call: Callable[..., Any], *, module: Any = None) -> None:
        self._call, self._module = call, module

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._call(*args, **named)

    def __deepcopy__(self, memo: dict[int, Any]) -> Callable[..., Any]:
        if self._module is None:
            return _ignore
        copied = memo[id(self._module)]
        return MethodType(type(copied).forward, copied)


def _ignore(*_: Any, **__: Any) -> None:
    """The hook of a copy."""


class ClippedSums:
    """Sums over units of clipped gradients of a model.

    Parameters
    ----------
    model
        A torch.nn.Module. Its parameters that require gradients are trained; which these are may
        change between steps.
    bound
        A number, the norm at which the gradient of a unit is clipped, or a `ClippingBound`.
    arithmetic
        "float64", or "float32", in which sums of up to 512 units are computed in float32 if a unit
        is one term of them. That is faster, and a unit's rounding may change the sum by more. By
        default only so few units are summed in float32 that it makes no difference.
    units
        With "float32" the most units of a batch; the rounding grows with it.
    shown
        Whether the sum of losses is another coordinate of the sums.

    Attributes
    ----------
    rules
        By the path of each module with parameters, how its gradients are found.
    bound
        The bound, with its sensitivity.

    Raises
    ------
    InvalidParameter
        For modules that mix examples, such as BatchNorm, by name. In a step, for losses that are
        not one number per example, and for a weight that is used outside its module.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(3, 1)
    >>> clipped = ClippedSums(model, bound=0.5)
    >>> losses = model(torch.ones(4, 3)).square().squeeze(1)
    >>> found = clipped.sums(losses)
    >>> sorted(found), bool(found["weight"].norm() <= 4 * 0.5)
    (['bias', 'weight'], True)
    """

    def __init__(
        self,
        model: Any,
        *,
        bound: float | ClippingBound,
        arithmetic: Arithmetic = "float64",
        units: int | None = None,
        shown: ShownLosses | None = None,
    ) -> None:
        require("torch", extra="learning")
        if not isinstance(model, torch.nn.Module):
            kind = type(model).__name__
            raise InvalidParameter("model", kind, expected="a torch.nn.Module")
        check_modules(model)
        self.model, self.bound = model, bound_of(bound)
        if not self.trained:
            raise InvalidParameter("model", "frozen", expected="a parameter that is trained")
        self.bound.check(list(self.trained))
        if not isinstance(shown, ShownLosses | None):
            raise InvalidParameter("losses", shown, expected="ShownLosses(largest=...), or None")
        self.shown = shown
        self._arithmetic, self._most = arithmetic, units
        self._rounding = rounding_of(arithmetic, units)
        self.rules: dict[str, str] = {}
        self._uses: list[_Use] = []
        self._apart: Counter[tuple[int, int]] = Counter()
        self._copies: list[tuple[Any, dict[str, Any]]] = []
        self._undo: list[Callable[[], None]] = []
        self._attach()
        if all(parameter.device.type == "cpu" for parameter in self.trained.values()):
            _keep_memory()

    @property
    def sensitivity(self) -> float:
        """The largest norm of a unit's change of a sum, including rounding.

        Source: docs/proofs/training.md, section 3.
        """
        norm = self.bound.sensitivity
        return (norm if self.shown is None else self.shown.stretched(norm)) * (1 + self._rounding)

    @property
    def trained(self) -> dict[str, Any]:
        """The trained parameters by name, a shared one once."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def close(self) -> None:
        """Take the hooks off the model."""
        while self._undo:
            self._undo.pop()()
        self.forget()

    def sums(
        self,
        losses: Tensor,
        weights: Tensor | None = None,
        *,
        rows_per_unit: int = 1,
        into: dict[str, Tensor] | None = None,
        memory: dict[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Sum up the clipped gradients of a batch, by parameter, in float64.

        This ends the step: the graph is freed. An adaptive bound has its count among the sums, and
        shown losses have theirs.

        Parameters
        ----------
        losses
            One number per example.
        weights
            Of each example, 0 for padding.
        rows_per_unit
            The number of consecutive examples of one unit, whose sum of gradients by weights is
            clipped.
        into
            Sums of other batches, which these are added to.
        memory
            Without `into`, other sums that are not needed any more, whose memory is used.

        Returns
        -------
        dict
            The sums by parameter.

        Raises
        ------
        InvalidParameter
            For losses that do not fit, and for more units than were stated.
        """
        self._check_apart(check_losses(losses), weights)
        parts = self._parts(losses, weights, rows_per_unit)
        if self._most is not None and len(losses) > self._most * rows_per_unit:
            expected = f"those of {self._most} units at most, as stated"
            raise InvalidParameter("losses", tuple(losses.shape), expected=expected)
        units = len(losses) // rows_per_unit
        check_size(parts, units)
        found = self._rooms(memory or {}) if into is None else into
        fresh = set(found) if into is None else set()
        for name in parts.keys() - found.keys():  # trained since
            found[name] = torch.zeros_like(self.trained[name], dtype=torch.float64)
        block = block_of(self._arithmetic, units)
        with full_precision(losses):
            known: dict[Any, Tensor] = {}
            squares = {name: square_norms(each, known) for name, each in parts.items()}
            kept = self.bound.weights(squares) if parts else {}
            alike = {id(weight): weight for weight in kept.values()}
            # Infinity times 0 is no number: units that count nothing are left out.
            every = not units or all(float(weight.min()) > 0 for weight in alike.values())
            some: Any = None if every else sum(alike.values()).nonzero().squeeze(1)
            own = {key: UnitWeights(one if every else one[some]) for key, one in alike.items()}
            for name, weight in kept.items() if units and (every or len(some)) else ():
                size = block if len(parts[name]) == 1 else 0  # several may be longer than their sum
                for part in parts[name]:
                    counts = part if every else part.only(some)
                    new = name in fresh
                    counts.add_to(found[name], own[id(weight)], block=size, fresh=new)
                    fresh.discard(name)
            for name in fresh:
                found[name].zero_()
            if self.bound.follows or self.shown is not None:
                there = losses.new_ones(len(losses)) if weights is None else weights.to(losses)
                there = there.detach().unflatten(0, (-1, rows_per_unit))
            if self.bound.follows:
                present = (there != 0).any(1)
                norms = squares or {COUNT: torch.zeros_like(present, dtype=torch.float64)}
                found[COUNT] += self.bound.counted(norms, present)
            if self.shown is not None:
                each, norm = losses.unflatten(0, (-1, rows_per_unit)), self.bound.sensitivity
                found[LOSS] += self.shown.summed(each, there, norm=norm)
        return found

    def no_sums(self) -> dict[str, Tensor]:
        """Return the sums over no unit.

        Returns
        -------
        dict
            Zeros by parameter, in float64.
        """
        return {name: room.zero_() for name, room in self._rooms({}).items()}

    def _rooms(self, memory: dict[str, Tensor]) -> dict[str, Tensor]:
        """Memory for sums, where it fits that of others."""
        found: dict[str, Tensor] = {}
        for name, parameter in self.trained.items():
            room = memory.get(name)
            if room is None or (room.shape, room.device) != (parameter.shape, parameter.device):
                room = torch.empty_like(parameter, dtype=torch.float64)
            found[name] = room
        if self.bound.follows:
            found[COUNT] = torch.zeros((), dtype=torch.float64)
        if self.shown is not None:
            found[LOSS] = torch.zeros((), dtype=torch.float64)
        return found

    def move_bound(self, released: float, batch_size: int) -> None:
        """Adapt the bound by the count that a step released.

        Parameters
        ----------
        released
            That number.
        batch_size
            The number of units that is expected in a batch.
        """
        self.bound = self.bound.moved(released, batch_size)

    def square_norms(self, losses: Tensor) -> Tensor:
        """Compute the squared norm of the gradient of each example that clipping uses.

        Parameters
        ----------
        losses
            One number per example.

        Returns
        -------
        Tensor
            One number per example.
        """
        parts = self._parts(losses, None, 1)
        with full_precision(losses):
            found: Tensor = torch.stack([square_norms(each, {}) for each in parts.values()]).sum(0)
        return found

    def _attach(self) -> None:
        inside: tuple[str, ...] = ()
        for name, module in self.model.named_modules():
            if not list(module.parameters(recurse=False)) or (inside and name.startswith(inside)):
                continue
            path, kind = name or "model", type(module).__name__
            forward = composite_of(module, linear=self._linear, lookup=self._lookup)
            if (rule := rule_of(module)) is not None:
                keep = _Attached(partial(self._keep, rule))
                hook = module.register_forward_hook(keep, with_kwargs=True)
                self._undo.append(hook.remove)
            elif forward is not None:
                self._replace(module, forward)
                inside += (f"{name}." if name else "",)
            else:
                self._replace(module, self._with_copies(module))
                kind = f"{kind}, a copy for each example"
                inside += (f"{name}." if name else "",)
            self.rules[path] = kind

    def _replace(self, module: Any, forward: Callable[..., Any]) -> None:
        """Another forward pass for a module while it is trained."""
        plain = module.forward

        def chosen(*args: Any, **named: Any) -> Any:
            trained = any(p.requires_grad for p in module.parameters())
            return (forward if trained and torch.is_grad_enabled() else plain)(*args, **named)

        module.forward = _Attached(chosen, module=module)
        self._undo.append(lambda: module.__dict__.pop("forward", None))

    def forget(self) -> None:
        """Drop the records of forward passes without a step."""
        self._uses.clear()
        self._copies.clear()

    def _keep(self, rule: Rule, module: Any, args: Any, named: Any, given: Any) -> None:
        first = args[0] if args else next(iter(named.values()))
        folds = isinstance(module, torch.nn.Linear | torch.nn.LayerNorm | torch.nn.RMSNorm)
        own = tuple(module.parameters(recurse=False))
        self._record(first, given, own, partial(rule, module), folds=folds)

    def _linear(self, given: Any, weight: Any, bias: Any) -> Any:
        """The product of a composite module with one of its weights, recorded."""
        found = torch.nn.functional.linear(given, weight, bias)
        own = (weight,) if bias is None else (weight, bias)
        self._record(given, found, own, partial(linear_parts, weight, bias), folds=True)
        return found

    def _lookup(self, index: Any, weight: Any, padding: int | None) -> Any:
        """The rows of a table of a composite module, recorded."""
        found = torch.nn.functional.embedding(index, weight, padding)
        self._record(index, found, (weight,), partial(lookup_parts, weight, padding), folds=False)
        return found

    def _record(self, given: Any, result: Any, own: Any, rule: Any, *, folds: bool) -> None:
        if not torch.is_grad_enabled() or not result.requires_grad:
            return
        if torch._C._current_graph_task_id() != -1:  # noqa: SLF001
            return  # a checkpoint computes activations again
        # An in-place operation on a view takes the view's node out of the graph.
        base = result._base if result._is_view() else None  # noqa: SLF001
        held = base is not None and base.requires_grad and base.numel() == result.numel()
        edge = torch.autograd.graph.get_gradient_edge(base if held else result)
        self._uses.append(_Use(given.detach(), edge, result.shape, own, rule, folds))

    def _with_copies(self, module: Any) -> Callable[..., Any]:
        """The forward pass of a module under vmap, each example with parameters of its own."""
        plain, tree_map = module.forward, torch.utils._pytree.tree_map  # noqa: SLF001

        def forward(*args: Any, **named: Any) -> Any:
            examples = len(next(one for one in (*args, *named.values()) if torch.is_tensor(one)))
            copies = {
                name: p.detach().expand(examples, *p.shape).clone().requires_grad_()
                for name, p in module.named_parameters()
                if p.requires_grad
            }
            self._copies.append((module, copies))
            chosen = module.forward

            def one(own: Any, inputs: Any, others: Any) -> Any:
                batched = tree_map(
                    lambda each: each.unsqueeze(0) if torch.is_tensor(each) else each,
                    (inputs, others),
                )
                module.forward = plain
                try:
                    found = torch.func.functional_call(module, own, *batched)
                finally:
                    module.forward = chosen
                return tree_map(lambda each: each.squeeze(0), found)

            return torch.func.vmap(one, randomness="different")(copies, args, named)

        return forward

    def _check_apart(self, losses: Tensor, weights: Any) -> None:
        """Try in the first batches whether losses mix examples, by the last layer and others.

        The others are those that were given several rows of an example.
        """
        examples = len(losses)
        chosen = [use for use in self._uses if use.shape[0] != examples] + self._uses[-1:]
        kinds = {(id(use.parameters[0]), use.shape[0]) for use in chosen}
        if examples > 1 and any(self._apart[kind] < _TRIED for kind in kinds):
            check_apart(losses, weights, [(use.edge, use.shape) for use in chosen])
            self._apart.update(kinds)

    def _parts(
        self, losses: Any, weights: Any, rows_per_unit: int
    ) -> dict[str, list[GradientPart]]:
        """Gradients of units by parameter; the records of the forward pass end here."""
        uses, copies = self._uses[:], self._copies[:]
        self.forget()
        losses = check_losses(losses)
        names = {id(p): name for name, p in self.trained.items()}
        inner = check_uses(losses, [(u.edge.node, p) for u in uses for p in u.parameters], names)
        leaves = [(dict(m.named_parameters())[n], c) for m, own in copies for n, c in own.items()]
        if not uses and not leaves:
            return {}
        found: dict[str, list[GradientPart]] = {}

        def add(parameter: Any, part: GradientPart) -> None:
            if id(parameter) in names:
                own = part.grouped(rows_per_unit) if rows_per_unit > 1 else part
                found.setdefault(names[id(parameter)], []).append(own)

        def apply(use: _Use, gradient: Any) -> None:
            if gradient is not None:
                for parameter, part in _applied(use, gradient, len(losses)):
                    add(parameter, part)

        def apply_at_once(use: _Use, gradient: Any) -> None:
            with full_precision(losses):
                apply(use, gradient)

        # Of several places parts are made at once, on the way to other nodes, and their factors let
        # go; the pass gives the gradients at the other edges.
        ends = []
        for use in uses:
            if len(use.shape) > 2 and use.edge.node in inner:
                hook = _Once(partial(apply_at_once, use), use.edge.output_nr)
                use.edge.node.register_prehook(hook)
            else:
                ends.append(use)
        uses.clear()
        edges = [*(use.edge for use in ends), *(copy for _, copy in leaves)]
        whole = losses.sum() if weights is None else (losses * weights.to(losses)).sum()
        gradients = _gradients(whole, edges)
        while leaves:
            (parameter, _), gradient = leaves.pop(), gradients.pop()
            if gradient is not None:
                wide = torch.promote_types(gradient.dtype, torch.float32)
                add(parameter, GradientRows([gradient.to(wide)]))
        with full_precision(losses):
            while ends:
                apply(ends.pop(), gradients.pop())
        return {name: merged(found[name]) for name in names.values() if name in found}


def _keep_memory() -> None:
    """Have the C library keep what a step frees: pages that were given back are cleared anew.

    glibc keeps up to twice the largest block that was ever freed, of at most 32 MB (mallopt(3),
    M_MMAP_THRESHOLD). No page of this one is touched.
    """
    torch.empty((32 << 20) - (1 << 16), dtype=torch.uint8, device="cpu")


def _gradients(whole: Tensor, edges: list[Any]) -> list[Any]:
    """The gradients at edges; InvalidParameter where a backward pass was made of these losses."""
    try:
        return list(torch.autograd.grad(whole, edges, allow_unused=True))
    except RuntimeError as error:
        if "second time" not in str(error):
            raise
        expected = (
            "losses that no backward pass was made of: step() makes it, backward() is left out"
        )
        raise InvalidParameter("losses", "after a backward pass", expected=expected) from error


class _Once:
    """A hook of a node that hands the gradient of one of its outputs on, once."""

    def __init__(self, apply: Callable[[Any], None], output: int) -> None:
        self._apply: Callable[[Any], None] | None = apply
        self._output = output

    def __call__(self, gradients: tuple[Any, ...]) -> None:
        apply, self._apply = self._apply, None
        if apply is not None:
            apply(gradients[self._output])


def _applied(use: _Use, gradient: Tensor, examples: int) -> Iterator[tuple[Any, GradientPart]]:
    """The parts of one use, in float32 at least; of several rows an example, of each example."""
    wide = torch.promote_types(gradient.dtype, torch.float32)
    gradient = gradient.to(wide).reshape(use.shape)
    given = use.given.to(wide) if use.given.is_floating_point() else use.given
    if len(gradient) == examples:
        yield from use.rule(given, gradient)
        return
    if not examples or len(gradient) % examples:
        raise InvalidParameter(
            "model",
            f"an input of shape {tuple(use.given.shape)}",
            expected=f"inputs whose first size is that of the losses, here {examples}",
        )
    rows = len(gradient) // examples
    if use.folds:
        given, gradient = (each.unflatten(0, (-1, rows)) for each in (given, gradient))
        yield from use.rule(given, gradient)
    else:
        for parameter, part in use.rule(given, gradient):
            yield parameter, part.grouped(rows)
