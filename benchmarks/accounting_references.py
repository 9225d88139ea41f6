"""Reference values of the accounting benchmark, in 34-digit arithmetic, without unacorda.

    python benchmarks/accounting_references.py [NAME ...]      # or accounting.py --references

    delta(epsilon) = h/pi e^(K(c) - c epsilon) [f_0 / 2 + f_1 + f_2 + ...],
    f_n = Re( phi(t_n) e^(-i t_n epsilon) / (s_n (s_n + 1)) ),  s_n = c + i n h,

is a trapezoid rule for the inverse Laplace transform of the loss's moments, K(c) = ln E e^(cL) and
phi(t) = E e^((c + it) L) / E e^(cL). Nothing is certified here. Instead each value is computed
twice, with abscissas c, periods 2 pi / h and steps of the moments' sums that have nothing to do
with each other, and their relative difference is written beside it. The abscissas are fractions of
the one that is best in Chernoff's bound, tried until two agree. Promises of (epsilon, delta) are
composed by their closed form. The values are kept in accounting_references.json with the settings
that made them and a fingerprint of their question. Needs mpmath.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath

from accounting_cases import CASES, STORE, Case, Part, fingerprint, references
from accounting_moments import DIGITS, MP, Direction, Law, Number, exactly, laws

AGREED = 1e-18
FRACTIONS = (0.87, 0.61, 0.43, 0.29, 0.19, 0.12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """delta as a function of epsilon, from one abscissa and one period."""

    c: Number
    h: Number
    log_m: Number
    terms: tuple[Number, ...]

    def log_delta(self, epsilon: Number) -> Number:
        turn, angle = MP.expj(-self.h * epsilon), MP.mpc(1)
        total = MP.mpf(0)
        for term in self.terms:
            total += (term * angle).real
            angle *= turn
        return MP.log(self.h / MP.pi * total) + self.log_m - self.c * epsilon


def profile(parts: list[Law], *, c: Number, period: Number, fineness: float) -> Profile:
    h = 2 * MP.pi / period
    nodes = [part.nodes(c, h, fineness=fineness) for part in parts]
    terms: list[Number] = []
    small = 0
    while small < 8:
        s = MP.mpc(c, len(terms) * h)
        phi = MP.mpc(1)
        for one in nodes:
            phi *= one.following()
        terms.append(phi / (s * (s + 1)) / (1 if terms else 2))
        small = small + 1 if abs(terms[-1]) < MP.mpf(10) ** -(DIGITS + 2) * abs(terms[0]) else 0
        if len(terms) > 20_000:
            raise ArithmeticError("the moments do not fall off")
    return Profile(c=c, h=h, log_m=MP.fsum(one.log_m for one in nodes), terms=tuple(terms))


def chernoff(parts: list[Law], value: Callable[[Number, Number], Number]) -> tuple[Number, Number]:
    """Where value(c, K(c) + ln kappa(c)) is least, and what it is there; golden section in ln c.

    delta(epsilon) <= kappa(c) e^(K(c) - c epsilon) with kappa(c) = c^c / (1 + c)^(1 + c).
    """

    def at(log_c: Number) -> Number:
        c = MP.exp(log_c)
        log_kappa = c * MP.log(c) - (1 + c) * MP.log(1 + c)
        return value(c, MP.fsum(part.log_m(c) for part in parts) + log_kappa)

    grid = [MP.mpf(place) / 2 for place in range(-8, 13)]
    heights = [at(place) for place in grid]
    best = min(range(len(grid)), key=lambda j: heights[j])
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    part = (MP.sqrt(5) - 1) / 2
    while high - low > 0.05:
        one, two = high - part * (high - low), low + part * (high - low)
        low, high = (low, two) if at(one) < at(two) else (one, high)
    middle = (low + high) / 2
    return MP.exp(middle), at(middle)


def secant(value: Callable[[Number], Number], one: Number, two: Number) -> Number:
    before, now = value(one), value(two)
    for _ in range(60):
        if now == before:
            break
        one, two = two, two - now * (two - one) / (now - before)
        if abs(two - one) <= MP.mpf(10) ** -(DIGITS - 8) * abs(two):
            break
        before, now = now, value(two)
    return two


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    value: Number
    difference: float
    settings: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        value = MP.nstr(self.value, 25)
        return {"value": value, "difference": self.difference, "settings": self.settings}


def agreed(attempt: Callable[[float, float, float], tuple[Number, dict[str, Any]]]) -> Found:
    """Two answers of different (fraction of c, stretch of the period, fineness) that agree best."""
    before: tuple[Number, dict[str, Any]] | None = None
    best: Found | None = None
    for turn, fraction in enumerate(FRACTIONS):
        now = attempt(fraction, (1.0, 1.37)[turn % 2], (1.0, 0.83)[turn % 2])
        if before is not None:
            difference = float(abs(now[0] / before[0] - 1))
            if best is None or difference < best.difference:
                best = Found(value=now[0], difference=difference, settings=[before[1], now[1]])
            if difference < AGREED:
                break
        before = now
    assert best is not None
    return best


def settings(made: Profile, fineness: float) -> dict[str, Any]:
    return {
        "c": float(made.c),
        "period": float(2 * MP.pi / made.h),
        "nodes": len(made.terms),
        "fineness": fineness,
    }


def enough(log_delta: Number, c: Number) -> Number:
    """A period beyond which the alias on the left is below the last digit of delta."""
    return (DIGITS * MP.log(10) - log_delta) / c


def epsilon_of(parts: list[Part], delta: float, direction: Direction) -> Found:
    composed, log_delta = laws(parts, direction), MP.log(exactly(delta))
    best, start = chernoff(composed, lambda c, height: (height - log_delta) / c)

    def attempt(fraction: float, stretch: float, fineness: float) -> tuple[Number, dict[str, Any]]:
        c = best * fraction
        made = profile(composed, c=c, period=stretch * enough(log_delta, c), fineness=fineness)
        found = secant(lambda e: made.log_delta(e) - log_delta, start, start * MP.mpf("0.99"))
        return found, settings(made, fineness)

    return agreed(attempt)


def noise_of(part: Part, epsilon: float, delta: float, direction: Direction) -> Found:
    """The noise at which one sampled Gaussian has that epsilon at that delta."""
    at, log_delta = exactly(epsilon), MP.log(exactly(delta))

    def composed(noise: Number) -> list[Law]:
        return laws([{**part, "noise": noise}], direction)

    best, _ = chernoff(composed(MP.mpf(2)), lambda c, height: height - c * at)

    def attempt(fraction: float, stretch: float, fineness: float) -> tuple[Number, dict[str, Any]]:
        c = best * fraction  # any abscissa is valid at any noise
        period = stretch * enough(log_delta, c)

        def made(noise: Number) -> Profile:
            return profile(composed(noise), c=c, period=period, fineness=fineness)

        found = secant(lambda noise: made(noise).log_delta(at) - log_delta, MP.mpf(2), MP.mpf(2.2))
        return found, settings(made(found), fineness)

    return agreed(attempt)


def homogeneous(part: Part, delta: float) -> Found:
    """k promises of (e, d) together: Kairouz, Oh, Viswanath 2015, Theorem 3.3, solved for epsilon.

    Between two atoms of the loss, delta is A - e^epsilon B with sums A and B over those above.
    """
    k, e, d = part["count"], exactly(part["epsilon"]), exactly(part["delta"])
    left = 1 - (1 - exactly(delta)) / (1 - d) ** k
    if left <= 0:
        return Found(value=MP.inf, difference=0.0, settings=[])
    p = 1 / (1 + MP.exp(-e))
    above, below, epsilon = MP.mpf(0), MP.mpf(0), k * e
    for misses in range(k // 2 + 1):
        loss = (k - 2 * misses) * e
        mass = MP.binomial(k, misses) * p ** (k - misses) * (1 - p) ** misses
        if above - MP.exp(loss) * below >= left:
            break
        above, below = above + mass, below + mass * MP.exp(-loss)
        epsilon = MP.log((above - left) / below) if above > left else MP.mpf(0)
    return Found(value=max(epsilon, MP.mpf(0)), difference=0.0, settings=[{"closed form": True}])


def reference(case: Case) -> dict[str, Any]:
    """The answers of one case by direction, and the worse of them."""
    kinds = {part["kind"] for part in case["parts"]}
    directions: tuple[Direction, ...] = ("remove", "add")
    found: dict[str, Found] = {}
    if kinds == {"approximate"}:
        found["remove"] = homogeneous(case["parts"][0], case["delta"])
    else:
        for direction in directions if "sampled_gaussian" in kinds else directions[:1]:
            if "epsilon" in case:
                part = case["parts"][0]
                found[direction] = noise_of(part, case["epsilon"], case["delta"], direction)
            else:
                found[direction] = epsilon_of(case["parts"], case["delta"], direction)
    worse = max(found.values(), key=lambda one: one.value)
    return {
        "question": case["title"],
        "fingerprint": fingerprint(case),
        "answer": MP.nstr(worse.value, 25),
        "difference": worse.difference,
        "directions": {direction: one.as_json() for direction, one in found.items()},
    }


def main(names: list[str]) -> None:
    kept = references()
    for name in names or list(CASES):
        began = time.perf_counter()
        kept[name] = reference(CASES[name])
        seconds = time.perf_counter() - began
        print(
            f"{name}: {kept[name]['answer']}, agrees to {kept[name]['difference']:.0e}, "
            f"{seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        made_by = {"digits": DIGITS, "mpmath": mpmath.__version__, "agreed": AGREED}
        cases = {known: kept[known] for known in CASES if known in kept}
        STORE.write_text(json.dumps({"made by": made_by, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
