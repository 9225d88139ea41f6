"""Every public mechanism has the four parts of the protocol, or is listed here with a reason."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import inspect
import math
from fractions import Fraction
from typing import Any

import pytest
from tests.contracts.test_every_data_dependent_mechanism_is_covered import MADE, MEDIAN
from tests.mechanisms.every_mechanism import EVERY, OF_RUNS
from tests.mechanisms.faces import everything as mechanisms
from tests.support.cases import in_subtests

from unacorda import accounting
from unacorda import mechanisms as usual
from unacorda.bits import SeededBits
from unacorda.errors import InvalidParameter
from unacorda.mechanisms.protocol import Accurate, Mechanism
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP
from unacorda.privacy.neighbors import AddRemove, ReplaceOne

ALL: dict[str, dict[str, Any]] = {**{name: case.made for name, case in EVERY.items()}, **MADE}
NAMES = sorted(name for name in mechanisms.__all__ if inspect.isclass(getattr(mechanisms, name)))

RUNS = "it wraps other mechanisms, whose guarantee is its parameter"
STREAM = "its price depends on the factorization: see accounting.calibrate"
NO_GUARANTEE = {
    **dict.fromkeys(("AbsorbFailure", "BestOf", "ConditionOnSuccess"), RUNS),
    **dict.fromkeys(("BinaryTree", "MatrixMechanism", "SquareRootToeplitz"), STREAM),
}
ESTIMATE = "its error depends on the number of reports: see variance"
EACH = "one for each answer: see standard_errors"
NO_BOUND = {
    **dict.fromkeys(("AbsorbFailure", "BestOf", "ConditionOnSuccess"), RUNS),
    **dict.fromkeys(("BinaryTree", "Marginals", "MatrixMechanism", "SquareRootToeplitz"), EACH),
    **dict.fromkeys(
        ("Directions", "Duchi", "HadamardResponse", "Hybrid", "LocalHashing", "Piecewise"), ESTIMATE
    ),
    **dict.fromkeys(("RandomizedResponse", "SubsetSelection", "UnaryEncoding"), ESTIMATE),
    "BoundedLaplace": "its error depends on where the value lies between the bounds",
    "FoundClipping": "what clipping takes away depends on the data: see people",
    "KNorm": "the law of one number is no closed form: see standard_deviation",
    "MultivariateGaussian": "one for each number: see standard_deviations",
    "NumericSparse": "of its two parts: see search and answer",
    "PartitionSelection": "it releases keys, no numbers: see probability",
    "ProposeTestRelease": "whether it answers depends on the data: see probability",
    "ShiftedInverse": "a rank error, of one confidence: see people",
    "SmoothSensitivity": "its noise depends on the data",
    "StableSelection": "it never releases another than the best: see lead_bound",
    "ThresholdedGaussian": "which keys are released depends on the data: see probability",
    "ThresholdedLaplace": "which keys are released depends on the data: see probability",
}

# What a guarantee decides, and is therefore not handed in beside it.
NOISE = {"epsilon", "delta", "sigma", "scale", "noise_multiplier", "bound"}
PURE, APPROX = PureDP(Fraction(7, 10)), ApproxDP(Fraction(7, 10), 1e-6)
CONCENTRATED, NORMAL = ZCDP(Fraction(1, 10)), GDP(Fraction(1, 2))
GUARANTEES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        ("Gaussian", "Marginals", "MultivariateGaussian"), (APPROX, CONCENTRATED, NORMAL)
    ),
    **dict.fromkeys(("TreeSelection", "ThresholdedGaussian"), (APPROX,)),
    **dict.fromkeys(
        (
            "PartitionSelection",
            "ProposeTestRelease",
            "StableSelection",
            "ThresholdedLaplace",
            "TruncatedLaplace",
        ),
        (APPROX,),
    ),
    **dict.fromkeys(("Exponential", "PiecewiseConstantExponential"), (PURE, CONCENTRATED)),
    **dict.fromkeys(("TopK", "InverseSensitivity"), (PURE, CONCENTRATED)),
    "DiscreteGaussian": (CONCENTRATED,),
    "SmoothSensitivity": (PURE, APPROX),
}
SHARED = {"BoundedLaplace": 3, "Staircase": 3, "PartitionSelection": 3, "TruncatedLaplace": 3}


def made(name: str, guarantee: Any, **more: Any) -> Any:
    kind = name.split(maxsplit=1)[0]
    rest = {key: value for key, value in ALL[name].items() if key not in NOISE}
    if kind.startswith("Thresholded"):
        rest.pop("threshold")
    if kind == "MultivariateGaussian":
        rest["covariance"] = [[2, 1], [1, 2]]
    if name == "TopK with gaps" and guarantee is CONCENTRATED:
        rest.pop("noise")
    if kind == "SmoothSensitivity":
        rest["statistic"] = MEDIAN
    return getattr(mechanisms, kind).for_guarantee(guarantee, **rest, **more)


def keeps(mechanism: Any, guarantee: Any) -> bool:
    """Whether the accountant finds that a release costs no more than the guarantee."""
    event = mechanism.event
    if isinstance(guarantee, GDP | ZCDP) and hasattr(event, "noise_multiplier"):
        squared = 1 / Fraction(event.noise_multiplier) ** 2
        limit = guarantee.mu_squared if isinstance(guarantee, GDP) else 2 * guarantee.rho
        return squared <= limit
    for neighbors in (AddRemove, ReplaceOne):
        try:
            if isinstance(guarantee, ZCDP):
                return accounting.rho(event, neighbors=neighbors) <= float(guarantee.rho) * (
                    1 + 1e-12
                )
            delta = guarantee.delta if isinstance(guarantee, ApproxDP) else 0
            spent = accounting.epsilon(event, delta=delta, neighbors=neighbors)
            return spent <= float(guarantee.epsilon) * (1 + 1e-6)
        except InvalidParameter:  # local mechanisms replace a record
            continue
    raise AssertionError(event)


def test_what_is_missing_is_listed_with_a_reason() -> None:
    parts = {name: dir(getattr(mechanisms, name)) for name in NAMES}
    assert {name for name in NAMES if "for_guarantee" not in parts[name]} == set(NO_GUARANTEE)
    assert {name for name in NAMES if "error_bound" not in parts[name]} == set(NO_BOUND)
    assert all("release" in part for part in parts.values())


def test_the_usual_mechanisms_state_their_parameters() -> None:
    for name in dir(usual):
        kind = getattr(usual, name)
        if inspect.isclass(kind):
            assert "\n\nParameters\n----------\n" in (inspect.getdoc(kind) or ""), name


def test_the_event_is_a_property_and_never_a_method() -> None:
    for name in NAMES:
        made_of = ALL[name] if name in ALL else OF_RUNS[name]
        kind = getattr(mechanisms, name)
        released: Mechanism[Any] = kind(**made_of)
        assert not callable(released.event)
        assert "bits" in inspect.signature(kind.release).parameters


@in_subtests("name", sorted(set(ALL) - set(NO_GUARANTEE)))
def test_a_guarantee_is_kept_and_is_spent(name: str) -> None:
    kind = name.split(maxsplit=1)[0]
    for guarantee in GUARANTEES.get(kind, (PURE,)):
        mechanism = made(name, guarantee)
        assert keeps(mechanism, guarantee), (name, guarantee)
        assert not keeps(mechanism, guarantee * Fraction(49, 50)), (name, guarantee)
        if kind in SHARED:
            shared = made(name, guarantee, l0_sensitivity=SHARED[kind])
            assert shared.l0_sensitivity == SHARED[kind]
            assert keeps(shared, guarantee)


@in_subtests("name", sorted(set(ALL) - set(NO_GUARANTEE)))
def test_other_guarantees_are_refused(name: str) -> None:
    kind = name.split(maxsplit=1)[0]
    taken = {type(guarantee) for guarantee in GUARANTEES.get(kind, (PURE,))}
    if kind == "DiscreteGaussian":
        taken = {ZCDP}
    for guarantee in (PureDP(0), None, 1.0, "PureDP(1)"):
        with pytest.raises(InvalidParameter, match="guarantee"):
            made(name, guarantee)
    if taken == {PureDP}:
        with pytest.raises(InvalidParameter, match="guarantee"):
            made(name, CONCENTRATED)


@in_subtests("name", sorted(name for name in ALL if name.split()[0] not in NO_BOUND))
def test_error_bounds_rise_with_the_confidence(name: str) -> None:
    kind = getattr(mechanisms, name.split(maxsplit=1)[0])
    mechanism: Accurate = kind(**ALL[name])
    asked = inspect.signature(kind.error_bound).parameters
    public = {"candidates": 20} if "candidates" in asked else {}
    public |= {"queries": 4} if "queries" in asked else {}
    bounds = [mechanism.error_bound(confidence, **public) for confidence in (0.5, 0.9, 0.999)]
    assert 0 <= bounds[0] <= bounds[1] <= bounds[2] < math.inf
    assert bounds[0] < bounds[2]
    for wrong in (0, -1, 2, math.nan, "x"):
        with pytest.raises(InvalidParameter, match="confidence"):
            mechanism.error_bound(wrong, **public)


def test_numbers_are_within_their_error_bound() -> None:
    for name in ("DiscreteGaussian", "DiscreteLaplace", "Gaussian", "Laplace", "Staircase"):
        mechanism = getattr(mechanisms, name)(**ALL[name])
        released = mechanism.release([0] * 2000, bits=SeededBits(3))
        beyond = sum(abs(released) > mechanism.error_bound(0.9))
        # Of 2000 at most 1 in 10 is expected beyond; 260 or more has a probability below 1e-5.
        assert 0 < beyond < 260
