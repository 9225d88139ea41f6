"""Moments of privacy losses in 34-digit arithmetic, for the references of the accounting benchmark.

E e^((c + it) L) of a Gaussian, of Laplace mechanisms and of randomised response are closed forms;
those of a sampled Gaussian are plain sums over the whole line, in steps of at most 0.12 standard
deviations: a trapezoid rule, whose error falls faster than any power of the step. Needs mpmath.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import mpmath

from accounting_cases import Part

DIGITS = 34
Direction = Literal["remove", "add"]
Number = Any  # mpmath's mpf and mpc

MP = mpmath.mp.clone()
MP.dps = DIGITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """ln E e^(cL), and E e^((c + i n h) L) / E e^(cL) for n = 0, 1, 2, ..."""

    log_m: Number
    following: Callable[[], Number]


class Law(Protocol):
    """The privacy loss of one part, all its copies together."""

    def log_m(self, c: Number) -> Number: ...

    def nodes(self, c: Number, h: Number, *, fineness: float) -> Nodes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """Loss N(v / 2, v) of Gaussians together, v the sum of 1 / noise^2."""

    variance: Number

    def log_m(self, c: Number) -> Number:
        return self.variance * c * (c + 1) / 2

    def nodes(self, c: Number, h: Number, *, fineness: float) -> Nodes:  # noqa: ARG002 - closed
        place = -1

        def following() -> Number:
            nonlocal place
            place += 1
            t = place * h
            return MP.exp(self.variance * (MP.mpc(0, t) * (2 * c + 1) - t * t) / 2)

        return Nodes(log_m=self.log_m(c), following=following)


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplaces:
    """Losses of Laplace mechanisms of sensitivity over scale u, one each."""

    us: tuple[Number, ...]

    def log_m(self, c: Number) -> Number:
        return MP.fsum(
            MP.log(((c + 1) * MP.exp(c * u) + c * MP.exp(-(c + 1) * u)) / (2 * c + 1))
            for u in self.us
        )

    def nodes(self, c: Number, h: Number, *, fineness: float) -> Nodes:  # noqa: ARG002 - closed
        log_m = self.log_m(c)
        up = [MP.mpc(MP.exp(c * u)) for u in self.us]
        down = [MP.mpc(MP.exp(-(c + 1) * u)) for u in self.us]
        turns = [MP.expj(h * u) for u in self.us]
        back = [MP.conj(turn) for turn in turns]
        scale = MP.exp(-log_m / len(self.us))
        s = MP.mpc(c, -h)

        def following() -> Number:
            nonlocal s
            s = MP.mpc(c, s.imag + h)
            p, m = (s + 1) / (2 * s + 1) * scale, s / (2 * s + 1) * scale
            value = MP.mpc(1)
            for j, turn in enumerate(turns):
                value *= p * up[j] + m * down[j]
                up[j] *= turn
                down[j] *= back[j]
            return value

        return Nodes(log_m=log_m, following=following)


@dataclass(frozen=True, slots=True, kw_only=True)
class Atoms:
    """`count` losses with finitely many values, or sums that stand for an integral."""

    count: int
    atoms: Callable[[Number, float], list[tuple[Number, Number]]]
    """From c and the fineness to pairs (loss, weight e^(c loss))."""

    def log_m(self, c: Number) -> Number:
        return self.count * MP.log(MP.fsum(weight for _, weight in self.atoms(c, 1.0)))

    def nodes(self, c: Number, h: Number, *, fineness: float) -> Nodes:
        atoms = self.atoms(c, fineness)
        m = MP.fsum(weight for _, weight in atoms)
        least = MP.mpf(10) ** -(DIGITS + 8) / self.count
        kept = [(loss, weight / m) for loss, weight in atoms if weight > least * m]
        turns = [MP.expj(h * loss) for loss, _ in kept]
        now = [MP.mpc(weight) for _, weight in kept]

        def following() -> Number:
            value = MP.fsum(now)
            for j, turn in enumerate(turns):
                now[j] *= turn
            return value**self.count

        return Nodes(log_m=self.count * MP.log(m), following=following)


def pure(part: Part) -> Atoms:
    """Randomised response, which dominates a pure guarantee."""
    e = exactly(part["epsilon"])
    top = 1 / (1 + MP.exp(-e))

    def atoms(c: Number, fineness: float) -> list[tuple[Number, Number]]:  # noqa: ARG001
        return [(e, top * MP.exp(c * e)), (-e, (1 - top) * MP.exp(-c * e))]

    return Atoms(count=part["count"], atoms=atoms)


def sampled_gaussian(part: Part, direction: Direction) -> Atoms:
    """x is N(0, 1) without the unit; f = 1 - q + q e^(x/s - 1/(2 s^2)) is the likelihood ratio.

    Remove: the loss is ln f, weighted by f; add: -ln f.
    """
    q, mu = exactly(part["rate"]), 1 / exactly(part["noise"])

    def atoms(c: Number, fineness: float) -> list[tuple[Number, Number]]:
        power = c + 1 if direction == "remove" else -c
        step = fineness * min(MP.mpf("0.12"), MP.mpf("0.08") / mu)
        low = int((min(mu * power, 0) - 15) / step)
        high = int((max(mu * power, 0) + 15) / step)
        out = []
        for place in range(low, high + 1):
            x = step * (place + MP.mpf(2) / 7)
            loss = MP.log(1 - q + q * MP.exp(mu * x - mu * mu / 2))
            weight = step * MP.exp(power * loss - x * x / 2) / MP.sqrt(2 * MP.pi)
            out.append((loss if direction == "remove" else -loss, weight))
        return out

    return Atoms(count=part["count"], atoms=atoms)


def laws(parts: list[Part], direction: Direction) -> list[Law]:
    found: list[Law] = []
    variance = MP.mpf(0)
    us = []
    for part in parts:
        match part["kind"]:
            case "gaussian":
                variance += part["count"] / exactly(part["noise"]) ** 2
            case "laplace":
                us += [1 / exactly(part["noise"])] * part["count"]
            case "pure":
                found.append(pure(part))
            case "sampled_gaussian":
                found.append(sampled_gaussian(part, direction))
            case kind:
                raise ValueError(kind)
    if variance:
        found.append(Normal(variance=variance))
    if us:
        found.append(Laplaces(us=tuple(us)))
    return found


def exactly(number: Number) -> Number:
    """The decimal that a float prints as; a long number as it is."""
    return MP.mpf(repr(number)) if isinstance(number, float) else MP.mpf(number)
