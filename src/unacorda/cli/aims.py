"""What a calibration aims at: one target out of the options, and what its measure is called."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from unacorda.cli.answers import AnswersAsked, plain
from unacorda.errors import InvalidParameter

if TYPE_CHECKING:
    from unacorda.accounting.calibration.targets import Target

__all__ = ["Aim", "aim_of"]

_CHOICES = (
    "one target: --epsilon (with --delta, or with --alpha for Renyi DP), --rho or --mu (each with "
    "--delta where it is wanted), --advantage, or --tpr with --fpr"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """A target, the number that it limits, and the question that tells this number.

    measure, at: as in an answer; squared: whether the calibrator measures the number's square.
    """

    target: Target
    measure: str
    at: Mapping[str, float]
    at_most: Fraction
    asked: AnswersAsked
    squared: bool = False

    @property
    def name(self) -> str:
        """The target in words."""
        where = ", ".join(f"{name}={plain(value)}" for name, value in self.at.items())
        said = f"{self.measure} of at most {plain(float(self.at_most))}"
        return f"{said} at {where}" if where else said


def aim_of(given: Mapping[str, Fraction | None]) -> Aim:
    """The aim that options give, by name, None where they are left out.

    >>> found = aim_of({"epsilon": Fraction(2), "delta": Fraction(1, 10**5)})
    >>> found.name
    'epsilon of at most 2 at delta=1e-5'
    """
    from unacorda.accounting.calibration.targets import Advantage, TruePositiveRate
    from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP, RenyiDP

    match {name: value for name, value in given.items() if value is not None}:
        case {"epsilon": epsilon, "alpha": alpha, **rest} if not rest:
            return Aim(
                target=RenyiDP(alpha, epsilon),
                measure="Renyi divergence",
                at={"alpha": float(alpha)},
                at_most=epsilon,
                asked=AnswersAsked(alphas=[alpha]),
            )
        case {"epsilon": epsilon, "delta": delta, **rest} if not rest and epsilon == 0 < delta:
            return Aim(
                target=ApproxDP(0, delta),
                measure="delta",
                at={"epsilon": 0.0},
                at_most=delta,
                asked=AnswersAsked(epsilons=[epsilon]),
            )
        case {"epsilon": epsilon, "delta": delta, **rest} if not rest and delta:
            return Aim(
                target=ApproxDP(epsilon, delta),
                measure="epsilon",
                at={"delta": float(delta)},
                at_most=epsilon,
                asked=AnswersAsked(deltas=[delta]),
            )
        case {"epsilon": epsilon, **rest} if not (rest.keys() - {"delta"}):
            return Aim(
                target=PureDP(epsilon),
                measure="epsilon",
                at={"delta": 0.0},
                at_most=epsilon,
                asked=AnswersAsked(deltas=[Fraction(0)]),
            )
        case {"rho": rho, **rest} if not (rest.keys() - {"delta"}):
            return Aim(
                target=ZCDP(rho, rest.get("delta", 0)),
                measure="rho",
                at={name: float(value) for name, value in rest.items()},
                at_most=rho,
                asked=AnswersAsked(rho=True),
            )
        case {"mu": mu, **rest} if not (rest.keys() - {"delta"}):
            return Aim(
                target=GDP(mu, rest.get("delta", 0)),
                measure="mu",
                at={name: float(value) for name, value in rest.items()},
                at_most=mu,
                asked=AnswersAsked(mu=True),
                squared=True,
            )
        case {"advantage": advantage, **rest} if not rest:
            return Aim(
                target=Advantage(advantage),
                measure="advantage",
                at={},
                at_most=advantage,
                asked=AnswersAsked(advantage=True),
            )
        case {"tpr": tpr, "fpr": fpr, **rest} if not rest:
            if tpr < fpr:
                expected = f"at least {plain(float(fpr))}, --fpr: as many are found by guessing"
                raise InvalidParameter("--tpr", plain(float(tpr)), expected=expected)
            return Aim(
                target=TruePositiveRate(at_most=tpr, fpr=fpr),
                measure="true-positive rate",
                at={"fpr": float(fpr)},
                at_most=tpr,
                asked=AnswersAsked(rates=[float(fpr)]),
            )
        case said:
            written = ", ".join(f"--{name} {plain(float(value))}" for name, value in said.items())
            raise InvalidParameter("--epsilon", written or None, expected=_CHOICES)
