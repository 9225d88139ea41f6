"""What a question tried out on public tables would answer, with and without its limits: values."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unacorda.query.schema.facts import Key
from unacorda.query.supposed import Assumed

__all__ = ["Rehearsal", "Trial"]

_FEW = 12  # lines that are told one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One column of answers, line by line.

    bounded: under the limits; free: without them; noise: the standard error, None if unknown.
    """

    bounded: tuple[float | None, ...]
    free: tuple[float | None, ...]
    noise: tuple[float | None, ...]

    @property
    def bias(self) -> tuple[float | None, ...]:
        """What the limits would do to the answers."""
        pairs = zip(self.bounded, self.free, strict=True)
        return tuple(None if x is None or y is None else x - y for x, y in pairs)

    @property
    def lines(self) -> tuple[tuple[float, float, float, float | None], ...]:
        """(bounded, free, bias, noise) of the lines that have numbers."""
        every = zip(self.bounded, self.free, self.noise, strict=True)
        return tuple((x, y, x - y, e) for x, y, e in every if x is not None and y is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What a question would answer on public tables, with and without its limits.

    keys: what each line is about: its group, and the bin or the value of which it tells, where a
    group has several lines; trials: by column; assumed: by aggregate, what the tables say of the
    numbers that errors depend on.
    """

    keys: tuple[tuple[Key, ...], ...]
    trials: Mapping[str, Trial]
    assumed: Assumed

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
        return {
            "keys": [[None if k is None else str(k) for k in key] for key in self.keys],
            "columns": {
                name: {
                    "bounded": list(trial.bounded),
                    "free": list(trial.free),
                    "bias": list(trial.bias),
                    "noise": list(trial.noise),
                }
                for name, trial in self.trials.items()
            },
        }

    @property
    def words(self) -> list[str]:
        """For people: each line where there are few, else the typical and the worst."""
        lines = ["What the limits would do, tried out on public tables"]
        for name, trial in self.trials.items():
            for key, x, y, bias, noise in zip(
                self.keys, trial.bounded, trial.free, trial.bias, trial.noise, strict=True
            ):
                if len(self.keys) <= _FEW and bias is not None:
                    about = ",".join(f" {'NULL' if k is None else k}" for k in key)
                    beside = "" if noise is None else f", beside noise of {noise:.4g}"
                    lines.append(f"  {name}{about}: {x:,.6g}, not {y:,.6g}: {bias:+.4g}{beside}")
            found = trial.lines
            if len(self.keys) > _FEW and found:
                worst = max(found, key=lambda line: abs(line[2]))
                mean = math.fsum(abs(bias) for _, _, bias, _ in found) / len(found)
                noises = sorted(noise for *_, noise in found if noise is not None)
                beside = f", beside noise of {noises[len(noises) // 2]:.4g}" if noises else ""
                lines.append(
                    f"  {name}: off by {mean:.4g} in the mean of {len(found):,} lines, by "
                    f"{worst[2]:+.4g} at most{beside}"
                )
        return lines if len(lines) > 1 else [*lines, "  there is nothing to compare"]
