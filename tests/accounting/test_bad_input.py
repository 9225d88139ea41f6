"""Bad input to the accountant's face: an error with a name, or the limit that is documented."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.support.cases import in_subtests
from tests.tiers import mostly_slow

from unacorda import accounting
from unacorda.accounting.accountant import true_positive_rate
from unacorda.accounting.calibration import TruePositiveRate
from unacorda.errors import InvalidParameter, UnsupportedEvent
from unacorda.privacy.events import (
    EVENT_KINDS,
    Approximate,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    Pure,
    RandomizedResponse,
    ZeroConcentrated,
    compose,
)
from unacorda.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP, RenyiDP
from unacorda.privacy.neighbors import AddRemove, Neighbors, ReplaceOne, ZeroOut

FACE: Any = accounting
"""Whatever its types promise, callers hand it anything."""
ONE: Any = Gaussian(noise_multiplier=1)
STEPS = ONE.poisson_sampled(rate=0.01) * 1000

NO_NUMBERS: dict[str, Any] = {
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "nan of numpy": np.float64("nan"),
    "true": True,
    "true of numpy": np.bool_(True),
    "none": None,
    "text": "x",
    "no text": "",
    "bytes": b"1",
    "complex": 1j,
    "list": [1],
    "tuple": (1,),
    "dict": {},
    "array": np.array([0.1]),
    "decimal nan": Decimal("nan"),
    "vast text": "1e999999999",
    "tiny text": "1e-999999999",
    "vast decimal": Decimal("1e999999999"),
    "object": PureDP(1),
}
OUT_OF_RANGE: dict[str, list[Any]] = {
    "delta": [-1e-9, -1, 1, 1.5, 10**400, "1e-301", Fraction(1, 10**400)],
    "epsilon": [-1e-9, -1, 10**301, "1e400"],
    "alpha": [1, 1.0, 0.5, 0, -2, 10**101, "1e400"],
    "points": [1, 0, -3, 10_001, 2.5, "3"],
    "fpr": [-1e-9, 1.0000001, 2],
    "guess": [0, -1, 10**400],
    "tolerance": [2, -1, "1.5"],
}
ASKING: dict[str, tuple[str, Callable[[Any], object]]] = {
    "epsilon": ("delta", lambda x: FACE.epsilon(STEPS, delta=x)),
    "epsilon of nothing": ("delta", lambda x: FACE.epsilon([], delta=x)),
    "epsilon_interval": ("delta", lambda x: FACE.epsilon_interval(ONE, delta=x)),
    "delta": ("epsilon", lambda x: FACE.delta(STEPS, epsilon=x)),
    "delta of nothing": ("epsilon", lambda x: FACE.delta([], epsilon=x)),
    "delta_interval": ("epsilon", lambda x: FACE.delta_interval(ONE, epsilon=x)),
    "tolerance of epsilon": ("tolerance", lambda x: FACE.epsilon(STEPS, delta=1e-5, tolerance=x)),
    "tolerance of delta": ("tolerance", lambda x: FACE.delta_interval([], epsilon=1, tolerance=x)),
    "renyi": ("alpha", lambda x: FACE.renyi(STEPS, alpha=x)),
    "renyi of nothing": ("alpha", lambda x: FACE.renyi([], alpha=x)),
    "tradeoff": ("points", lambda x: FACE.tradeoff(STEPS, points=x)),
    "tradeoff of nothing": ("points", lambda x: FACE.tradeoff([], points=x)),
    "true_positive_rate": ("fpr", lambda x: true_positive_rate(ONE, fpr=x)),
    "guess": (
        "guess",
        lambda x: FACE.calibrate(_noise, target=ZCDP(1), guess=x if x is not None else 0),
    ),
    "tolerance": ("tolerance", lambda x: FACE.calibrate(_noise, target=ZCDP(1), tolerance=x)),
}


def _noise(value: float) -> Event:
    return Gaussian(noise_multiplier=value)


@in_subtests("tolerance", [0, 1, 1e-15])
def test_no_search_is_so_narrow_or_so_wide(tolerance: float) -> None:
    with pytest.raises(InvalidParameter) as refused:
        FACE.calibrate(_noise, target=ZCDP(1), tolerance=tolerance)
    assert refused.value.argument == "tolerance"


@in_subtests("kind", NO_NUMBERS)
@in_subtests("face", ASKING)
def test_what_is_no_number_is_refused_by_name(face: str, kind: str) -> None:
    argument, ask = ASKING[face]
    with pytest.raises(InvalidParameter) as refused:
        ask(NO_NUMBERS[kind])
    assert refused.value.argument == argument
    assert refused.value.expected


@in_subtests(
    ("face", "value"),
    [(face, value) for face, (argument, _) in ASKING.items() for value in OUT_OF_RANGE[argument]],
    ids=str,
)
def test_numbers_out_of_range_are_refused_by_name_and_value(face: str, value: Any) -> None:
    argument, ask = ASKING[face]
    with pytest.raises(InvalidParameter) as refused:
        ask(value)
    assert refused.value.argument == argument
    assert refused.value.value == value


def test_a_vast_value_is_not_written_out() -> None:
    with pytest.raises(InvalidParameter) as refused:
        FACE.delta(ONE, epsilon=10**4000)
    assert "epsilon=1e4000 cannot" in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("digits", [300, 400, 5000])  # Python writes no whole number beyond 4300
def test_numbers_of_any_length_are_refused_in_short(digits: int) -> None:
    vast, tiny = 10**digits * 1000, Fraction(1, 10**digits * 1000)
    asked: list[tuple[str, Callable[[], Any]]] = [
        ("delta", lambda: FACE.epsilon(ONE, delta=tiny)),
        ("delta", lambda: FACE.epsilon(ONE, delta=-vast)),
        ("epsilon", lambda: FACE.delta(ONE, epsilon=vast)),
        ("alpha", lambda: FACE.renyi(ONE, alpha=vast)),
        ("noise_multiplier", lambda: FACE.epsilon(Gaussian(noise_multiplier=tiny), delta=0.1)),
        ("epsilon", lambda: FACE.delta(Pure(epsilon=vast), epsilon=1)),
        ("count", lambda: FACE.epsilon(ONE * vast, delta=0.1)),
        ("within", lambda: FACE.calibrate(_noise, target=ZCDP(1), within=(tiny, 1))),
        ("within", lambda: FACE.calibrate(_noise, target=ZCDP(1), within=(1, vast))),
    ]
    for argument, ask in asked:
        with pytest.raises(InvalidParameter) as refused:
            ask()
        assert refused.value.argument == argument
        assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "value", [0.25, "1/4", "0.25", Decimal("0.25"), Fraction(1, 4), np.float64(0.25)], ids=repr
)
def test_one_number_in_all_its_types_has_one_answer(value: Any) -> None:
    assert FACE.epsilon(ONE, delta=value) == FACE.epsilon(ONE, delta=0.25)
    assert FACE.delta(ONE, epsilon=value) == FACE.delta(ONE, epsilon=0.25)
    assert true_positive_rate(ONE, fpr=value) == true_positive_rate(ONE, fpr=0.25)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.int64])
def test_scalars_of_numpy_are_numbers(kind: Callable[[int], Any]) -> None:
    assert FACE.renyi(STEPS, alpha=kind(2)) == FACE.renyi(STEPS, alpha=2)
    same = Gaussian(noise_multiplier=kind(1)) * int(kind(4))
    assert FACE.epsilon(same, delta=1e-5) == FACE.epsilon(ONE * 4, delta=1e-5)
    assert FACE.tradeoff(STEPS, points=np.int64(3)) == FACE.tradeoff(STEPS, points=3)
    assert FACE.sampling_worth(kind(1), rate=kind(1)).free


NO_EVENTS: dict[str, Any] = {
    "number": 3,
    "none": None,
    "text": "gaussian",
    "bytes": b"g",
    "class": Gaussian,
    "guarantee": PureDP(1),
    "list of numbers": [3],
    "list of texts": ["x"],
    "list in a list": [[ONE]],
    "events and more": [ONE, None],
}
PRICING: dict[str, Callable[[Any], object]] = {
    "epsilon": lambda e: FACE.epsilon(e, delta=1e-5),
    "delta": lambda e: FACE.delta(e, epsilon=1),
    "renyi": lambda e: FACE.renyi(e, alpha=2),
    "rho": FACE.rho,
    "tradeoff": FACE.tradeoff,
    "explain": lambda e: FACE.explain(e, delta=1e-5),
    "true_positive_rate": lambda e: true_positive_rate(e, fpr=0.1),
    "price as PureDP": lambda e: FACE.price(e, PureDP),
    "price as ZCDP": lambda e: FACE.price(e, ZCDP),
    "price as GDP": lambda e: FACE.price(e, GDP),
    "price as ApproxDP": lambda e: FACE.price(e, ApproxDP, delta=1e-5),
    "price as RenyiDP": lambda e: FACE.price(e, RenyiDP, alpha=2),
    "charge": lambda e: FACE.charge(e, PureDP(1), ZCDP(1)),
    "calibrate": lambda e: FACE.calibrate(lambda _: e, target=ZCDP(1)),
    "calibrate to mu": lambda e: FACE.calibrate(lambda _: e, target=GDP(1)),
    "calibrate to epsilon": lambda e: FACE.calibrate(lambda _: e, target=ApproxDP(1, 1e-5)),
    "calibrate to a rate": lambda e: FACE.calibrate(
        lambda _: e, target=TruePositiveRate(at_most=0.2, fpr=0.1)
    ),
}


@in_subtests("kind", NO_EVENTS)
@in_subtests("face", PRICING)
def test_what_is_no_event_is_refused(face: str, kind: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        PRICING[face](NO_EVENTS[kind])
    assert refused.value.argument == "events"


def test_no_events_cost_nothing() -> None:
    nothing: Any
    for nothing in ([], (), iter(())):
        assert FACE.epsilon(nothing, delta=0) == 0.0
    assert FACE.delta([], epsilon=0) == 0.0
    assert FACE.renyi([], alpha=2) == 0.0
    assert FACE.rho([]) == 0.0
    assert FACE.tradeoff([]).advantage == 0.0
    assert FACE.explain([]).pure == 0.0
    for kind, cost in {PureDP: PureDP(0), ZCDP: ZCDP(0), GDP: GDP(0)}.items():
        assert FACE.price([], kind) == cost
    assert FACE.price([], ApproxDP) == ApproxDP(0, 0)
    assert FACE.price([], RenyiDP, alpha=2) == RenyiDP(2, 0)
    assert FACE.charge([], PureDP(1), PureDP(2)) == PureDP(0)
    with pytest.raises(InvalidParameter, match="events"):
        compose([])


@in_subtests("relation", ["add_remove", "AddRemove", None, 1, Neighbors], ids=repr)
@in_subtests("events", [ONE, []], ids=["one", "none"])
def test_a_relation_is_one_of_three(events: Any, relation: Any) -> None:
    for ask in (
        lambda: FACE.epsilon(events, delta=1e-5, neighbors=relation),
        lambda: FACE.delta(events, epsilon=1, neighbors=relation),
        lambda: FACE.renyi(events, alpha=2, neighbors=relation),
        lambda: FACE.rho(events, neighbors=relation),
        lambda: FACE.tradeoff(events, neighbors=relation),
        lambda: FACE.explain(events, neighbors=relation),
        lambda: true_positive_rate(events, fpr=0.1, neighbors=relation),
        lambda: FACE.calibrate(lambda _: events, target=ZCDP(1), neighbors=relation),
    ):
        with pytest.raises(InvalidParameter) as refused:
            ask()
        assert refused.value.argument == "neighbors"


SCHEMES: dict[str, Event] = {
    "fixed size": Pure(epsilon=1).fixed_size_sampled(size=3, population=9),
    "with replacement": Pure(epsilon=1).sampled_with_replacement(size=3, population=9),
    "shuffled": Pure(epsilon=1).shuffled(count=1000),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_that_keeps_the_size_does_not_speak_of_adding(scheme: str) -> None:
    event = SCHEMES[scheme]
    for wrapped in (event, event * 3, event + ONE, (event + ONE).poisson_sampled(rate=0.5)):
        for ask in (
            lambda one=wrapped: FACE.epsilon(one, delta=1e-5),
            lambda one=wrapped: FACE.delta(one, epsilon=1),
            lambda one=wrapped: FACE.renyi(one, alpha=2),
            lambda one=wrapped: FACE.rho(one),
            lambda one=wrapped: FACE.tradeoff(one),
            lambda one=wrapped: FACE.explain(one),
            lambda one=wrapped: true_positive_rate(one, fpr=0.1),
        ):
            with pytest.raises(InvalidParameter) as refused:
                ask()
            assert refused.value.argument == "neighbors"
            assert "ReplaceOne" in str(refused.value)
            assert "poisson_sampled" in str(refused.value)


@in_subtests(
    "make",
    [
        lambda: ONE.poisson_sampled(rate=0),
        lambda: ONE.poisson_sampled(rate=1.01),
        lambda: ONE.poisson_sampled(rate=-0.1),
        lambda: ONE.poisson_sampled(rate=math.nan),
        lambda: ONE.poisson_sampled(rate=True),
        lambda: ONE.fixed_size_sampled(size=10, population=9),
        lambda: ONE.fixed_size_sampled(size=0, population=9),
        lambda: ONE.fixed_size_sampled(size=1.5, population=9),
        lambda: ONE * 0,
        lambda: ONE * -1,
        lambda: ONE * True,
        lambda: ONE * 1.5,
        lambda: Gaussian(noise_multiplier=0),
        lambda: Gaussian(noise_multiplier=-1),
        lambda: Gaussian(noise_multiplier=math.inf),
        lambda: Gaussian(noise_multiplier=math.nan),
        lambda: Gaussian(noise_multiplier="1"),  # type: ignore[arg-type]
        lambda: Pure(epsilon=-1),
        lambda: Approximate(epsilon=1, delta=1.1),
        lambda: Approximate(epsilon=1, delta=-0.1),
        lambda: RandomizedResponse(epsilon=1, categories=1),
        lambda: RandomizedResponse(epsilon=1, categories=2.5),  # type: ignore[arg-type]
    ],
    ids=range(22),
)
def test_events_refuse_numbers_that_mean_nothing(make: Callable[[], Event]) -> None:
    with pytest.raises(InvalidParameter) as refused:
        make()
    assert refused.value.expected


EXTREME: dict[str, Event] = {
    "tiny noise": Gaussian(noise_multiplier=1e-101),
    "least float": Laplace(noise_multiplier=5e-324),
    "tiny fraction": Gaussian(noise_multiplier=Fraction(1, 10**400)),
    "vast noise": Gaussian(noise_multiplier=1e101),
    "vast integer": Laplace(noise_multiplier=10**400),
    "vast epsilon": Pure(epsilon=1e300),
    "tiny rate": ONE.poisson_sampled(rate=1e-101),
    "vast count": ONE * 10**19,
    "vaster count": (ONE + Laplace(noise_multiplier=2)) * 10**400,
    "vast population": ONE.fixed_size_sampled(size=1, population=10**19),
    "inside": (ONE + Pure(epsilon=1e200)).poisson_sampled(rate=0.1) * 3,
}


@in_subtests("kind", EXTREME)
@in_subtests("face", PRICING)
def test_numbers_beyond_floats_are_refused_by_name(face: str, kind: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        PRICING[face](EXTREME[kind])
    names = {"noise_multiplier", "epsilon", "rate", "count", "population"}
    assert refused.value.argument in names
    assert "1e100" in refused.value.expected or "10^18" in refused.value.expected


def test_events_that_stand_too_deep_are_refused_and_not_written_out() -> None:
    event: Event = ONE
    for _ in range(3000):
        event = event.shuffled(count=2)
    for ask in PRICING.values():
        with pytest.raises(InvalidParameter, match="at most 64 deep"):
            ask(event)


LARGE: dict[str, Event] = {
    "little noise": Gaussian(noise_multiplier=1e-9),
    "least noise": Gaussian(noise_multiplier=1e-100),
    "most noise": Gaussian(noise_multiplier=1e100),
    "little Laplace noise": Laplace(noise_multiplier=1e-30),
    "much Laplace noise": Laplace(noise_multiplier=1e30),
    "a large epsilon": Pure(epsilon=1e9),
    "a small epsilon": Pure(epsilon=1e-30),
    "a large range": Exponential(epsilon=1e30),
    "a large response": RandomizedResponse(epsilon=1e9, categories=3),
    "many categories": RandomizedResponse(epsilon=1, categories=10**18),
    "a large rho": ZeroConcentrated(rho=1e30),
    "a narrow discrete Gaussian": DiscreteGaussian(sigma=1e-9, sensitivity=1),
    "a wide discrete Gaussian": DiscreteGaussian(sigma=1e9, sensitivity=1),
    "a narrow discrete Laplace": DiscreteLaplace(scale=1e-9, sensitivity=1),
    "a wide discrete Laplace": DiscreteLaplace(scale=1e30, sensitivity=1000),
    "a large pair": Approximate(epsilon=1e9, delta=1e-12),
    "a rare sample": ONE.poisson_sampled(rate=1e-100),
    "a rare loud sample": Gaussian(noise_multiplier=1e-9).poisson_sampled(rate=1e-9),
    "a rare loud Laplace sample": Laplace(noise_multiplier=1e-30).poisson_sampled(rate=0.01),
    "many": ONE * 10**18,
    "many samples": ONE.poisson_sampled(rate=0.01) * 10**9,
    "many pairs": Approximate(epsilon=0.1, delta=1e-12) * 10**9,
    "many of two kinds": ONE * 10**9 + Laplace(noise_multiplier=1e9) * 10**9,
}


LONG = {"many samples", "many pairs", "least noise", "many of two kinds"}


@pytest.mark.parametrize(
    "kind",
    mostly_slow(
        [pytest.param(kind, marks=pytest.mark.slow if kind in LONG else ()) for kind in LARGE],
        quick=3,
    ),
)
def test_large_and_small_numbers_have_answers_that_hold_together(kind: str) -> None:
    event = LARGE[kind]
    for delta in (0, 1e-300, 1e-5, 0.999):
        interval = FACE.epsilon_interval(event, delta=delta)
        assert 0 <= interval.lower <= interval.upper
    for epsilon in (0, 1, 1e300):
        interval = FACE.delta_interval(event, epsilon=epsilon)
        assert 0 <= interval.lower <= interval.upper <= 1
    for neighbors in (ReplaceOne, ZeroOut):
        interval = FACE.epsilon_interval(event, delta=1e-5, neighbors=neighbors)
        assert 0 <= interval.lower <= interval.upper
    low, middle = FACE.delta_interval(event, epsilon=0), FACE.delta(event, epsilon=1)
    assert low.lower <= low.upper
    assert middle <= low.upper
    assert FACE.epsilon(event, delta=0.5) <= FACE.epsilon(event, delta=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "event",
    [
        STEPS * 10**15,
        Approximate(epsilon=0.1, delta=1e-12) * 10**18,
        ONE * 10**18 + Laplace(noise_multiplier=1e9) * 10**18,
    ],
    ids=["samples", "pairs", "two kinds"],
)
def test_the_largest_counts_have_answers(event: Event) -> None:
    interval = FACE.epsilon_interval(event, delta=1e-5)
    assert 0 <= interval.lower <= interval.upper
    assert interval.upper > 1e6


@pytest.mark.parametrize(
    ("event", "low", "high"),
    [
        # mu = 1e9: mu^2/2 + mu z, z the normal quantile at 1e-5, about 4.265.
        (Gaussian(noise_multiplier=1e-9), 5e17 + 4.2e9, 5e17 + 4.3e9),
        (Gaussian(noise_multiplier=1e100), 0, 0),
        (Pure(epsilon=1e9), 1e9 - 1, 1e9),
        (Pure(epsilon=1e-30), 0, 1e-30),
        (Laplace(noise_multiplier=1e-30), 1e30 - 1e15, 1e30),
        (ONE * 10**18, 5e17 + 4.2e9, 5e17 + 4.3e9),
        (Approximate(epsilon=0.1, delta=1e-4), math.inf, math.inf),
        (Approximate(epsilon=0, delta=1), math.inf, math.inf),
        (ZeroConcentrated(rho=1, delta=1), math.inf, math.inf),
    ],
    ids=range(9),
)
def test_limits_are_the_documented_ones(event: Event, low: float, high: float) -> None:
    found = FACE.epsilon(event, delta=1e-5)
    assert low <= found <= high * (1 + 1e-9)


def test_pure_epsilon_is_infinite_where_there_is_none() -> None:
    assert FACE.epsilon(ONE, delta=0) == math.inf
    assert FACE.epsilon(STEPS, delta=0) == math.inf
    assert FACE.epsilon(Laplace(noise_multiplier=2), delta=0) == 0.5


def test_a_sample_of_everybody_is_the_event() -> None:
    whole = ONE.poisson_sampled(rate=1) * 3
    assert FACE.epsilon(whole, delta=1e-5) == pytest.approx(
        FACE.epsilon(ONE * 3, delta=1e-5), rel=1e-9
    )


def test_orders_next_to_1_are_read_from_above() -> None:
    """Divergences grow with their order, and at order 1 they are at least that of Kullback."""
    step = math.exp(-1 / 2)
    law = {k: (1 - step) / (1 + step) * step ** abs(k) for k in range(-400, 401)}
    truths: dict[Event, float] = {
        ONE: 0.5,
        RandomizedResponse(epsilon=1, categories=2): math.tanh(0.5),
        Laplace(noise_multiplier=1): math.exp(-1),
        DiscreteLaplace(scale=2, sensitivity=3): math.fsum(
            share * (abs(k - 3) - abs(k)) / 2 for k, share in law.items()
        ),
    }
    for event, truth in truths.items():
        for alpha in (1 + Fraction(1, 10**300), 1 + Fraction(1, 2**61), 1 + 1e-15):
            found = FACE.renyi(event, alpha=alpha)
            assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-6)


@in_subtests("kind", [*sorted(set(NO_NUMBERS) - {"object"}), "zero", "negative", "vast"])
@in_subtests("argument", ["epsilon", "rate"])
def test_what_sampling_is_worth(argument: str, kind: str) -> None:
    value = {**NO_NUMBERS, "zero": 0, "negative": -1, "vast": 10**400}[kind]
    arguments = {"epsilon": 1.0, "rate": 0.1, argument: value}
    with pytest.raises(InvalidParameter) as refused:
        FACE.sampling_worth(arguments["epsilon"], rate=arguments["rate"])
    assert refused.value.argument == argument


def test_what_has_a_delta_has_no_divergence() -> None:
    for event in (Approximate(epsilon=1, delta=0.1), ZeroConcentrated(rho=1, delta=0.1)):
        with pytest.raises(UnsupportedEvent) as refused:
            FACE.renyi(event, alpha=2)
        assert refused.value.try_instead
        with pytest.raises(UnsupportedEvent) as refused:
            FACE.rho(event)
        assert "price(event, ZCDP)" in refused.value.try_instead


@pytest.mark.slow
def test_the_union_is_whole() -> None:
    """Whatever event a face does not know, it says so by name, and nothing else is raised."""
    assert len(EVENT_KINDS) >= 20
    for relation in (AddRemove, ReplaceOne, ZeroOut):
        for event in SCHEMES.values():
            for ask in (
                lambda one, how: FACE.epsilon(one, delta=1e-5, neighbors=how),
                lambda one, how: FACE.delta(one, epsilon=1, neighbors=how),
                lambda one, how: FACE.renyi(one, alpha=2, neighbors=how),
                lambda one, how: FACE.rho(one, neighbors=how),
            ):
                try:
                    found = ask(event, relation)  # type: ignore[no-untyped-call]
                except (InvalidParameter, UnsupportedEvent):
                    continue
                assert found >= 0
