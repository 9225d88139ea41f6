r"""Private training of a PyTorch model: noisy sums of clipped gradients of sampled units.

A plain loop changes in three places: the loader becomes a `PrivateTraining`, the loss keeps one
number per example, and zero_grad, backward and step become one call. docs/proofs/training.md has
the guarantee and its assumptions.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from numpy.typing import ArrayLike

from unacorda.bits import RandomBits
from unacorda.errors import InvalidParameter
from unacorda.extras import later, require
from unacorda.learning.batches import LogicalBatch, chunks_of
from unacorda.learning.canary_audit import CanaryAudit, TrainingAudit
from unacorda.learning.charges import TrainingCharge
from unacorda.learning.checkpoints import Checkpoint
from unacorda.learning.clipping.arithmetic import Arithmetic
from unacorda.learning.clipping.bounds import COUNT, ClippingBound
from unacorda.learning.clipping.checks import check_losses, check_optimizer
from unacorda.learning.clipping.sums import ClippedSums
from unacorda.learning.distributed import Ranks, on_all_ranks
from unacorda.learning.gradients import GradientCanaries
from unacorda.learning.mixing import check_mixing
from unacorda.learning.noise.correlated import Correlated
from unacorda.learning.noise.keys import NoiseKey
from unacorda.learning.noise.steps import StepNoise
from unacorda.learning.plan import (
    TrainingPlan,
    TrainingRecord,
    check_followed,
    least_error,
    planned,
    sampling_of,
)
from unacorda.learning.sampling import Sampling
from unacorda.learning.shown_losses import LOSS, ShownLosses
from unacorda.learning.units import Units
from unacorda.privacy.guarantees import Guarantee
from unacorda.privacy.neighbors import AddRemove, Neighbors

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["PrivateTraining"]

torch: Any = later("torch")

_COINS, _CHUNKS = 1, 3

CONDITIONS: Final = (
    "gradients of a unit depend on its rows and the weights alone",
    "losses, norms, batch sizes and the state of the optimizer before noise are not shown",
)


class PrivateTraining:
    """Trains a model by noisy sums of clipped gradients within a budget.

    Source: Abadi et al. 2016, arXiv:1607.00133; docs/proofs/training.md.

    Parameters
    ----------
    model, optimizer
        A torch.nn.Module and an optimizer of its parameters.
    dataset
        Examples by index, such as a torch TensorDataset, or a tuple of tensors of equal length.
    budget
        A guarantee, such as ApproxDP(2, 1e-6), or session.remaining.
    units
        The public number of units; needed under AddRemove, where the true number is private.
    batch_size
        The average number of units in a step; sums are divided by this public number.
    epochs, steps
        The length of the training; give one of them.
    clip
        The norm that gradients of units are clipped to, or a `ClippingBound`.
    sampling
        `PoissonSampling()` by default.
    noise
        `Banded(bands=8)` correlates the noise of 8 steps and samples groups of units in turn;
        "auto" chooses the least predicted error, which `plan` shows, or independent noise. With
        `sampling=OrderedBatches()` there are no groups, and `Buffered()` is possible too.
    unit, rows
        The unit of each row, such as a person's id, and the most rows of a unit in a step. By
        default each row is a unit.
    neighbors
        AddRemove, ReplaceOne or ZeroOut.
    physical
        Rows that are computed at once.
    arithmetic
        The arithmetic of the sums: "float64", or the faster "float32", which adds noise to cover
        its rounding: 0.5 % more for 256 units together, 0.03 % for 64, 1.8 % for 512 and more.
    ledger, account
        A ledger from `ledger.open_ledger` and the name of an open account. The budget is reserved
        there before a row is read.
    session
        An `unacorda.Session`, in place of a ledger and an account: its budget is debited.
    collate
        From a list of examples to a batch; by default torch's.
    average
        From 0 to 1: also compute a moving average of the weights, `averaged`, which costs nothing.
    losses
        `ShownLosses(largest=5.0)` shows the noisy mean loss of each step in `shown_losses`, at a
        cost in precision of the gradients; None shows nothing.
    canaries
        Gradients from `scattered` or `dirac`, which are added and sampled like units; `audit` then
        bounds their privacy loss.
    checkpoint, resume, spare
        The path for `save`, and whether to continue from there. `spare` further steps are planned
        to replace those that crashes interrupt; with a checkpoint by default one in a hundred.
    bits
        Omit it for secure noise; `SeededBits` makes a run reproducible, and not private.
    group
        A process group of torch.distributed whose processes train together; None for a single
        process.

    Attributes
    ----------
    ranks
        The rank of this process, and the number of ranks.
    plan
        What will be done, and what it costs: free to look at.
    steps_done, steps_begun
        Steps that were taken, and steps that were begun.
    shown_losses
        The noisy mean loss of each step taken, with `losses=`.
    recorded
        Whether a ledger or a checkpoint records the run.

    Raises
    ------
    InvalidParameter
        Before a row is read: for modules that mix examples, an optimizer of other parameters,
        numbers that do not fit, budgets that no noise keeps.

    Examples
    --------
    >>> import torch, unacorda
    >>> model = torch.nn.Linear(2, 1)
    >>> rows = torch.randn(200, 2), torch.randn(200, 1)
    >>> training = PrivateTraining(
    ...     model,
    ...     torch.optim.SGD(model.parameters(), lr=0.1),
    ...     rows,
    ...     budget=unacorda.ApproxDP(2, 1e-5),
    ...     units=200,
    ...     batch_size=50,
    ...     epochs=1,
    ...     clip=1.0,
    ...     bits=unacorda.SeededBits(1),
    ... )
    >>> for x, y in training:
    ...     training.step((model(x) - y).square().sum(1))
    >>> training.steps_done
    4
    """

    @on_all_ranks
    def __init__(
        self,
        model: Any,
        optimizer: Any,
        dataset: Any,
        *,
        budget: Guarantee,
        batch_size: int,
        units: int | None = None,
        epochs: float | None = None,
        steps: int | None = None,
        clip: float | ClippingBound,
        sampling: Sampling | None = None,
        noise: Correlated | Literal["auto"] | None = None,
        unit: ArrayLike | None = None,
        rows: int | None = None,
        neighbors: Neighbors = AddRemove,
        physical: int | None = None,
        arithmetic: Arithmetic = "float64",
        ledger: Any = None,
        account: str | None = None,
        session: Any = None,
        collate: Callable[[list[Any]], Any] | None = None,
        average: float | None = None,
        losses: ShownLosses | None = None,
        canaries: GradientCanaries | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        spare: int | None = None,
        bits: RandomBits | None = None,
        group: Any = None,
    ) -> None:
        require("torch", extra="learning")
        self.ranks = Ranks(group)
        self.ranks.same(checkpoint=checkpoint is None, resume=resume)
        self._files = None if checkpoint is None else Checkpoint(Path(checkpoint))
        if resume and self._files is None:
            raise InvalidParameter("resume", resume, expected="with checkpoint=, the path of one")
        saved, fresh = self._files if resume else None, partial(NoiseKey.drawn, bits)
        self._key = self.ranks.first("secret", saved.key if saved else fresh)
        self._data = Units.of(dataset, unit=unit, rows=rows, collate=collate)
        at_once = self._data.at_once(physical, -(-batch_size // self.ranks.size))
        most = at_once // self._data.rows
        self._clipped = ClippedSums(
            model, bound=clip, arithmetic=arithmetic, units=most, shown=losses
        )
        self.model, self.optimizer = model, optimizer
        check_optimizer(optimizer, self._clipped.trained)
        plan = partial(
            planned,
            budget=budget,
            neighbors=neighbors,
            units=units,
            population=self._data.count,
            batch_size=batch_size,
            epochs=epochs,
            steps=steps,
            spare=spare if self._files else spare or 0,
            sensitivity=self._clipped.sensitivity,
            unit="one row" if unit is None else "all rows of one unit",
            by_unit=unit is not None,
            rows=self._data.rows,
            dataset=self._data.described,
            clip=repr(self._clipped.bound),
            losses=losses,
            physical=at_once,
            rules=self._clipped.rules,
            conditions=CONDITIONS,
        )
        self.plan: TrainingPlan = plan(sampling=sampling_of(sampling, noise))
        if self._clipped.bound.follows:
            check_followed(self.plan, noise=noise, canaries=canaries)
        if noise == "auto":
            table, best = least_error(self.plan)
            self.plan = plan(sampling=best, comparison=table)
        self._noise = StepNoise(self.plan, self._key, self.ranks)
        if average is not None and not 0 <= average < 1:
            raise InvalidParameter("average", average, expected="from 0 to below 1, such as 0.9")
        debited: dict[str, Any] = {"ledger": ledger, "account": account, "session": session}
        self._charge = TrainingCharge(self.plan, secure=self._key.secure, **debited)
        self._average, self.averaged = average, None if average is None else self._weights()
        self.recorded = self._charge.account is not None or checkpoint is not None
        led = None if self.ranks.rank else canaries  # rank 0 alone adds them
        self._canaries = None if led is None else CanaryAudit(led, self.plan)
        self.ranks.lead(account=self._charge.account, canaries=canaries)
        self.ranks.same(budget=budget, clip=clip, average=average, dataset=self._data.layout)
        self.ranks.same(**self.plan.to_dict())
        self._current: LogicalBatch | None = None
        self._sums: dict[str, Any] = {}
        self.steps_done = self.steps_begun = 0
        self.shown_losses: list[float] = []
        coins = partial(self._key.stream, _COINS)
        self._draws = self.plan.sampling.draws(self._data.count, self.plan.batches, coins)
        self._mixing_checked = False
        if self._data.shapes_are_known:  # before any row is read
            self._check_mixing()
        if saved is not None:
            self._resume(saved)
        elif self._files is not None:
            self.ranks.first("checkpoint", partial(self._files.start, self._key, self.plan))
        self.ranks.same(model=model.state_dict(), optimizer=optimizer.state_dict())

    def __iter__(self) -> Iterator[Any]:
        """Physical batches of all remaining steps; call `step` after each."""
        with self.ranks.together():
            self.ranks.first("budget", self._reserve)
            self._check_mixing()
            most = self.plan.steps - self.plan.spare
            while self.steps_done < most and self.steps_begun < self.plan.steps:
                self._begin()
                while self._current is not None:
                    yield self._next_batch()

    @on_all_ranks
    def step(self, losses: Tensor) -> None:
        """Sum the clipped gradients of a batch; after the last of a logical batch take the step.

        Parameters
        ----------
        losses
            A tensor of one number per example of the batch, before any mean.

        Raises
        ------
        RuntimeError
            Unless it follows a batch of this training, once each.
        InvalidParameter
            For losses of another shape.
        """
        if self._current is None or self._current.pending is None:
            raise RuntimeError("step() follows a batch that this training gave, once")
        weights = self._current.taken()
        check_losses(losses, examples=len(weights))
        self._sums = self._current.sums = self._clipped.sums(
            losses,
            weights,
            rows_per_unit=self._data.rows,
            into=self._current.sums,
            memory=self._sums,
        )
        if self._current.complete:
            self._finish(self._sums)

    def record(self) -> TrainingRecord:
        """The record of how the weights were made; keep it with them."""
        plan, secure = self.plan.to_dict(), self._key.secure
        return TrainingRecord(plan=plan, steps=self.steps_done, secure=secure)

    def release(self, path: str) -> TrainingRecord:
        """Write the weights and the record to a file for torch.load, on rank 0.

        Parameters
        ----------
        path
            Of the file.

        Returns
        -------
        TrainingRecord
            The record that was written with the weights.

        Raises
        ------
        RuntimeError
            Within a step.
        """
        if self._current is not None:
            raise RuntimeError("a step is under way: release between steps")
        record = self.record()
        held = {"weights": self.model.state_dict(), "record": record.to_dict()}
        if self.ranks.rank == 0:
            torch.save(held | ({"averaged": self.averaged} if self.averaged else {}), path)
        return record

    def save(self) -> None:
        """Write the state to the checkpoint, between steps; `resume=True` continues from there."""
        if self.ranks.rank:
            return
        if self._files is None:
            raise RuntimeError("a training without checkpoint= has nowhere to save to")
        if self._current is not None:
            raise RuntimeError("a step is under way: save between steps")
        self._files.save(
            model=self.model.state_dict(),
            optimizer=self.optimizer.state_dict(),
            averaged=self.averaged,
            bound=dict(vars(self._clipped.bound)),
            canaries=None if self._canaries is None else self._canaries.state(),
            steps_done=self.steps_done,
            shown_losses=self.shown_losses,
        )

    def _resume(self, files: Checkpoint) -> None:
        """Go on from what was saved; steps that were begun since are charged and lost."""
        resume = partial(files.resume, self.plan, self._charge.place)
        found = self.ranks.first("checkpoint", resume)
        held, self.steps_begun, self._charge.made = found
        self._noise.renew(self.steps_begun)
        if held is not None:
            self.model.load_state_dict(held["model"])
            self.optimizer.load_state_dict(held["optimizer"])
            self.averaged, self.steps_done = held["averaged"], held["steps_done"]
            self.shown_losses = held["shown_losses"]
            self._clipped.bound = type(self._clipped.bound)(**held["bound"])
            if self._canaries is not None:
                self._canaries.restore(held["canaries"])

    def audit(self, *, confidence: float = 0.95) -> TrainingAudit:
        """Audit this run by its canaries: a lower bound on epsilon, and the guaranteed one.

        Parameters
        ----------
        confidence
            The confidence of the bound, between 0 and 1.

        Raises
        ------
        RuntimeError
            For a training without canaries, or before its first step.
        """
        if self._canaries is None:
            raise RuntimeError("an audit needs canaries=, and is made on rank 0")
        return self._canaries.audit(confidence=confidence)

    def close(self) -> None:
        """Remove the hooks from the model, and release the checkpoint."""
        self._clipped.close()
        if self._files is not None:
            self._files.close()

    def _check_mixing(self) -> None:
        """Try the model on made-up rows, once."""
        if not self._mixing_checked:
            check_mixing(self.model, self._clipped, self._data.made_up)
        self._mixing_checked = True

    def _reserve(self) -> None:
        """Debit the whole budget, once, before a row is read."""
        if self._charge.make():
            if self._files is not None:
                self._files.reserve(self._charge.place)
            self._charge.commit()

    def _begin(self) -> None:
        """Draw the units of a step, and of each unit the chunk that it is computed in."""
        # Counted on disk first: a step that a crash cuts off is charged, and never drawn again.
        own, files = self.steps_begun, self._files
        step = self.ranks.number(f"step {own}", files.begin if files else lambda: own)
        self.steps_begun, bits = step + 1, self._key.stream(_CHUNKS, step)
        chunks = chunks_of(self._draws(step), self.plan, bits, share=self.ranks.share)
        self._current = LogicalBatch(step, chunks)
        if not chunks:  # no unit was drawn, or none for this rank
            self._finish(self._clipped.no_sums())

    def _next_batch(self) -> Any:
        assert self._current is not None
        device = next(iter(self._clipped.trained.values())).device
        bits = partial(self._key.stream, _CHUNKS + 1, self._current.number)
        return self._current.next_chunk(self._data, self.plan, bits, device)

    def _finish(self, sums: dict[str, Any]) -> None:
        """Add the noise, give the mean to the optimizer, and let it step."""
        assert self._current is not None
        step, trained = self._current.number, self._clipped.trained
        if self._canaries is not None:
            gradients = {name: sums[name] for name in trained}
            bits = self._key.stream(_CHUNKS + 2, step)
            sums = {**sums, **self._canaries.added_to(gradients, bits)}
        sums = self.ranks.summed(f"sums of step {step}", sums)
        scale = self.plan.noise_multiplier * self._clipped.sensitivity
        found = self._noise.add(sums, step, scale=scale)
        if self._canaries is not None:
            self._canaries.see({name: found[name] for name in trained})
        for name, parameter in trained.items():
            mean = found[name] / self.plan.batch_size
            parameter.grad = mean.to(device=parameter.device, dtype=parameter.dtype)
        if (shown := self._clipped.shown) is not None:
            norm, size = self._clipped.bound.sensitivity, self.plan.batch_size
            self.shown_losses.append(shown.mean(float(found[LOSS]), norm=norm, batch_size=size))
        if COUNT in found:
            self._clipped.move_bound(float(found[COUNT]), self.plan.batch_size)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.averaged is not None and self._average is not None:
            for name, value in self._weights().items():
                old = self.averaged[name]
                self.averaged[name] = self._average * old + (1 - self._average) * value
        self.steps_done += 1
        self._current = None

    def _weights(self) -> dict[str, Any]:
        return {name: p.detach().clone() for name, p in self.model.named_parameters()}
