"""Every estimate, test, model and trainer with two datasets that its audit tells apart.

The datasets differ in one row: the one there moves what is released as far as one row can.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unacorda import GDP, ApproxDP, PureDP, inference
from unacorda.bits import RandomBits, SeededBits
from unacorda.inference.losses import Huber, LogCosh, Logistic
from unacorda.inference.regression.local import Device
from unacorda.inference.regression.rows import scaling
from unacorda.privacy.events import Event
from unacorda.privacy.guarantees import Guarantee

__all__ = ["FITS", "LOSS", "NOTHING_TOLD", "Fit", "ends", "numbers_of", "released"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """ask: from data, a budget and bits to what is released; pair: the datasets; claim: the
    budget, and `louder` another one under which the audit has to find the claim broken.

    runs: with each dataset, for learning and for the verdict alike. many: whether `ask` takes how
    many runs there are and returns them all, in lines.
    """

    ask: Callable[..., object]
    pair: tuple[Any, Any]
    claim: Guarantee = dataclasses.field(default_factory=lambda: PureDP(2))
    louder: Guarantee = dataclasses.field(default_factory=lambda: PureDP(8))
    runs: int = 600
    many: bool = False


def released(fit: Fit, *, budget: Guarantee) -> Callable[[Any, int], Any]:
    """From data and a number to the numbers of so many releases, one line each."""
    bits = SeededBits(23)

    def sample(data: Any, count: int) -> Any:
        if fit.many:
            return fit.ask(data, budget, bits, count)
        lines = [list(numbers_of(fit.ask(data, budget, bits))) for _ in range(count)]
        longest = max(map(len, lines))
        return np.array([line + [np.nan] * (longest - len(line)) for line in lines])

    return sample


def numbers_of(told: Any) -> Iterator[float]:
    """All numbers of a release, its fitted attributes if it is an estimator."""
    if told is None or isinstance(told, str | bytes | Event | Guarantee | RandomBits):
        return
    if isinstance(told, bool | int | float | Fraction | np.generic):
        yield float(told)
    elif isinstance(told, Mapping):
        for name in sorted(told):
            yield from numbers_of(told[name])
    elif isinstance(told, np.ndarray | list | tuple):
        for part in np.asarray(told, dtype=object).ravel():
            yield from numbers_of(part)
    elif hasattr(told, "fit"):
        for name in sorted(vars(told)):
            if name.endswith("_") and not name.startswith("_"):
                yield from numbers_of(getattr(told, name))
    elif dataclasses.is_dataclass(told):
        for field in dataclasses.fields(told):
            yield from numbers_of(getattr(told, field.name))
    else:
        raise AssertionError(f"a release has a part of type {type(told).__name__}")


def line(others: list[float], *victim: float) -> tuple[Floats, ...]:
    """The others with each of these in turn."""
    return tuple(np.array([*others, value]) for value in victim)


def _pair(sets: tuple[Any, ...]) -> tuple[Any, Any]:
    one, other = sets
    return one, other


TEN: dict[str, Any] = {"lower": 0, "upper": 10}
MIDDLE = _pair(line([5.0] * 11, 10.0, 0.0))
TWO = _pair(line([5.0], 10.0, 5.0))
ONE = _pair(line([], 9.0, 1.0))
SCORED = _pair(tuple((np.array([0.9, v]), np.array([0.0, 1.0 - v])) for v in (0.9, 0.0)))
HALVES = _pair(line([0.0] * 3 + [10.0] * 4, 10.0, 0.0))
QUARTERS = _pair(line([0.0] + [10.0] * 6, 10.0, 0.0))
YES = _pair(tuple(v > 5 for v in MIDDLE))
KINDS = _pair((np.array([0, 1, 0]), np.array([0, 1, 2])))
PLANE = _pair(tuple(np.array([[5.0, 5.0], [10.0, v]]) for v in (10.0, 0.0)))
PLANE_BOUNDS = [(0, 10), (0, 10)]


def _regression(rows: int, y: float) -> tuple[Floats, Floats]:
    """People in all corners whose targets are level, so that fits are, and one far off the line."""
    x = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] * rows)[:rows]
    x[-1] = 1.0
    return x, np.append(np.zeros(rows - 1), y)


def ends(rows: int, *targets: float) -> tuple[Any, Any]:
    return _pair(tuple(_regression(rows, y) for y in targets))


UNIT: dict[str, Any] = {"feature_bounds": (-1, 1)}
NORMAL: dict[str, Any] = {"claim": GDP("1.5"), "louder": GDP(60), "runs": 150}


def _device(loss: Any) -> Callable[..., Floats]:
    """What a device of such a fit sends of its gradient.

    A fit of many people adds up their reports; each of them keeps the guarantee by itself.
    """

    def ask(person: Any, budget: Guarantee, bits: RandomBits, count: int) -> Floats:
        (x, y), theta = person, np.zeros(3)
        device = Device(loss=loss, scales=scaling((-1, 1), features=2), budget=budget)
        rows, target = np.repeat([x], count, axis=0), np.repeat([float(y)], count)
        return device.gradient(rows, target, theta=theta, bits=bits)

    return ask


# As long a row as counts in full: longer ones are weighted down.
PERSON = (([0.4, 0.4], 9.0), ([0.4, 0.4], -9.0))
LINEAR = {**UNIT, "target_bounds": (-2, 2)}
LOSS = LogCosh(1.0)

DEVICES: dict[str, Any] = {"louder": PureDP(8), "runs": 6000, "many": True}
SEARCHED: dict[str, Any] = {
    "claim": ApproxDP(2, "0.01"),
    "louder": ApproxDP(50000, "0.01"),
    "runs": 200,
}


def _search(kind: Any, **given: Any) -> Callable[..., Any]:
    """The best of a few runs, whose score tells most of a row that judges: it comes first."""

    def ask(data: Any, budget: Guarantee, bits: RandomBits) -> Any:
        x, y = data
        line = inference.RidgeRegression(
            target_bounds=(-1, 1), penalty=1.0, budget=budget, bits=bits, **UNIT
        )
        rest: Any = {"tries": 2, "error_bound": 2.0, "bits": bits, **given}
        found = kind(line, {"penalty": [1.0, 2.0]}, **rest).fit(x[:, :1], y)
        return [found.best_score_, found]

    return ask


def _curve(data: Any, budget: Guarantee, bits: RandomBits) -> Any:
    """Two candidates; their scores tell most of a row that judges."""
    x, y = data
    line = inference.RidgeRegression(target_bounds=(-1, 1), penalty=1.0, budget=budget, **UNIT)
    found = inference.ValidationCurve(
        line, {"penalty": [1.0, 2.0]}, held_out=0.5, error_bound=2.0, bits=bits
    ).fit(x, y)
    return [found.scores_.tolist(), [one.coef_.tolist() for one in found.estimators_]]


class First:
    """A public model, the first feature."""

    def predict(self, x: Floats) -> Floats:
        return x[:, 0]


def _ends_first(told: inference.Density) -> list[Any]:
    """A density where the person may be, then all of it: scores read the first numbers alone."""
    return [told.values[0], told.values[-1], told]


FITS: Mapping[str, Fit] = {
    "mean": Fit(ask=lambda x, b, s: inference.mean(x, budget=b, bits=s, **TEN), pair=MIDDLE),
    "proportion": Fit(ask=lambda x, b, s: inference.proportion(x, budget=b, bits=s), pair=YES),
    "clipped_mean": Fit(
        ask=lambda x, b, s: inference.clipped_mean(x, budget=b, bits=s, **TEN),
        pair=MIDDLE,
        louder=PureDP(40),
        runs=400,
    ),
    "find_bounds": Fit(
        ask=lambda x, b, s: inference.find_bounds(x, budget=b, bits=s),
        pair=_pair(line([1.0] * 2, 1.0, 1e6)),
        louder=PureDP(40),
        runs=400,
    ),
    "variance": Fit(
        ask=lambda x, b, s: inference.variance(x, budget=b, bits=s, **TEN),
        pair=TWO,
        louder=PureDP(40),
        runs=400,
    ),
    "stdev": Fit(
        ask=lambda x, b, s: inference.stdev(x, budget=b, bits=s, **TEN),
        pair=TWO,
        louder=PureDP(40),
        runs=400,
    ),
    "median": Fit(
        ask=lambda x, b, s: inference.median(x, budget=b, resolution=1, bits=s, **TEN),
        pair=HALVES,
        louder=PureDP(40),
        runs=400,
    ),
    "quantile": Fit(
        ask=lambda x, b, s: inference.quantile(x, 0.25, budget=b, resolution=1, bits=s, **TEN),
        pair=QUARTERS,
        louder=PureDP(40),
        runs=400,
    ),
    "iqr": Fit(
        ask=lambda x, b, s: inference.iqr(x, budget=b, resolution=1, bits=s, **TEN),
        pair=QUARTERS,
        louder=PureDP(160),
        runs=400,
    ),
    "local_frequencies": Fit(
        ask=lambda x, b, s: inference.local_frequencies(x, categories=3, budget=b, bits=s),
        pair=_pair((np.array([0, 1]), np.array([0, 2]))),
    ),
    "local_mean": Fit(
        ask=lambda x, b, s: inference.local_mean(x, budget=b, bits=s, **TEN),
        pair=_pair((np.array([0.0, 0.0]), np.array([0.0, 10.0]))),
    ),
    "covariance_matrix": Fit(
        ask=lambda x, b, s: inference.covariance_matrix(x, bounds=PLANE_BOUNDS, budget=b, bits=s),
        pair=PLANE,
        louder=PureDP(160),
        runs=400,
    ),
    "correlation_matrix": Fit(
        ask=lambda x, b, s: inference.correlation_matrix(x, bounds=PLANE_BOUNDS, budget=b, bits=s),
        pair=PLANE,
        louder=PureDP(160),
        runs=400,
    ),
    "histogram": Fit(
        ask=lambda x, b, s: inference.histogram(x, edges=[0, 5, 10], budget=b, bits=s),
        pair=ONE,
    ),
    "score_table": Fit(
        ask=lambda d, b, s: inference.score_table(
            None, *d, bins=2, classes=(0, 1), budget=b, bits=s
        ),
        pair=SCORED,
    ),
    "class_tables": Fit(
        ask=lambda d, b, s: inference.class_tables(
            None, *d, bins=2, classes=(0, 1), budget=b, bits=s
        ),
        pair=SCORED,
        louder=PureDP(40),
    ),
    "importance": Fit(
        ask=lambda d, b, s: inference.importance(
            First(), *d, reference=[[0.0, 0.0]], residual_bound=1, draws=1, budget=b, bits=s
        ),
        pair=(
            (np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([0.0, 0.0])),
            (np.array([[0.0, 0.0], [0.0, 0.0]]), np.array([0.0, 0.0])),
        ),
        louder=PureDP(40),
    ),
    "residual_table": Fit(
        ask=lambda d, b, s: inference.residual_table(
            None, *d, bins=1, target_bounds=(-1, 1), residual_bound=1, budget=b, bits=s
        ),
        pair=SCORED,
        louder=PureDP(32),
    ),
    "density": Fit(
        ask=lambda x, b, s: _ends_first(inference.density(x, budget=b, bits=s, **TEN)),
        pair=MIDDLE,
        louder=PureDP(16),
        runs=200,
    ),
    "distribution": Fit(
        ask=lambda x, b, s: inference.distribution(x, edges=[0, 5, 10], budget=b, bits=s),
        pair=_pair(line([1.0] * 4, 1.0, 9.0)),
    ),
    "binomial_test": Fit(
        ask=lambda x, b, s: inference.binomial_test(x, budget=b, bits=s), pair=YES
    ),
    "fit_test": Fit(
        ask=lambda x, b, s: inference.fit_test(x, shares=[1, 1, 1], budget=b, draws=99, bits=s),
        pair=KINDS,
    ),
    "independence_test": Fit(
        ask=lambda x, b, s: inference.independence_test(
            x[0], x[1], categories=(2, 2), budget=b, draws=99, bits=s
        ),
        pair=(
            (np.array([0, 1, 0, 1]), np.array([0, 1, 0, 1])),
            (np.array([0, 1, 0, 1]), np.array([0, 1, 0, 0])),
        ),
    ),
    "two_proportions_test": Fit(
        ask=lambda x, b, s: inference.two_proportions_test(
            x, [True, False], budget=b, draws=99, bits=s
        ),
        pair=YES,
    ),
    "t_test": Fit(
        ask=lambda x, b, s: inference.t_test(x, 5, budget=b, draws=99, bits=s, **TEN), pair=MIDDLE
    ),
    "two_sample_t_test": Fit(
        ask=lambda x, b, s: inference.two_sample_t_test(
            x, MIDDLE[0], budget=b, draws=99, bits=s, **TEN
        ),
        pair=MIDDLE,
    ),
    "anova": Fit(
        ask=lambda x, b, s: inference.anova([x, TWO[0], TWO[1]], budget=b, draws=99, bits=s, **TEN),
        pair=TWO,
        louder=PureDP(160),
        runs=2000,
    ),
    "mann_whitney_test": Fit(
        ask=lambda x, b, s: inference.mann_whitney_test(x, [4.0, 6.0], budget=b, draws=99, bits=s),
        pair=_pair(line([5.0], 10.0, 0.0)),
    ),
    "signed_rank_test": Fit(
        ask=lambda x, b, s: inference.signed_rank_test(x, budget=b, draws=99, bits=s),
        pair=_pair(line([1.0, -1.0], 10.0, -10.0)),
    ),
    "PCA": Fit(
        ask=lambda x, b, s: inference.PCA(budget=b, bits=s, **UNIT).fit(x),
        pair=_pair(tuple(np.array([[0.0, 0.0]] * 9 + [[1.0, v]]) for v in (1.0, -1.0))),
    ),
    "RobustScaler": Fit(
        ask=lambda x, b, s: inference.RobustScaler(budget=b, feature_bounds=(0, 10), bits=s).fit(
            x[:, None]
        ),
        pair=QUARTERS,
        louder=PureDP(160),
        runs=400,
    ),
    "LinearRegression": Fit(
        ask=lambda d, b, s: inference.LinearRegression(budget=b, bits=s, **LINEAR).fit(*d),
        pair=ends(30, 2.0, -2.0),
        **NORMAL,
    ),
    "LogisticRegression": Fit(
        ask=lambda d, b, s: inference.LogisticRegression(
            budget=b, classes=(0, 1), bits=s, **UNIT
        ).fit(*d),
        pair=ends(110, 1.0, 0.0),
        **{**NORMAL, "louder": GDP(2000)},
    ),
    "PoissonRegression": Fit(
        ask=lambda d, b, s: inference.PoissonRegression(budget=b, largest=3, bits=s, **UNIT).fit(
            *d
        ),
        pair=ends(130, 3.0, 0.0),
        **{**NORMAL, "louder": GDP(400)},
    ),
    "QuantileRegression": Fit(
        ask=lambda d, b, s: inference.QuantileRegression(budget=b, bits=s, **LINEAR).fit(*d),
        pair=ends(50, 2.0, -2.0),
        **{**NORMAL, "louder": GDP(40000)},
    ),
    "MEstimator": Fit(
        ask=lambda d, b, s: inference.MEstimator(loss=LOSS, budget=b, bits=s, **LINEAR).fit(*d),
        pair=ends(45, 9.0, -9.0),
        **NORMAL,
    ),
    "RidgeRegression": Fit(
        ask=lambda d, b, s: inference.RidgeRegression(
            target_bounds=(-1, 1), penalty=0.01, budget=b, bits=s, **UNIT
        ).fit(*d),
        pair=ends(45, 9.0, -9.0),
        **NORMAL,
    ),
    "LocalMEstimator": Fit(ask=_device(LOSS), pair=PERSON, **DEVICES),
    "LocalLinearRegression": Fit(ask=_device(Huber(2.0)), pair=PERSON, **DEVICES),
    "LocalLogisticRegression": Fit(
        ask=_device(Logistic()), pair=(([0.4, 0.4], 1.0), ([-0.4, -0.4], 1.0)), **DEVICES
    ),
    "NoisySGD": Fit(
        ask=lambda d, b, s: inference.NoisySGD(
            loss=LOSS, budget=b, sampling_rate=0.5, steps=3, bits=s, **UNIT
        ).fit(*d),
        pair=ends(4, 9.0, -9.0),
        claim=ApproxDP(2, "0.01"),
        louder=ApproxDP(16, "0.01"),
    ),
    "SparseRegression": Fit(
        ask=lambda d, b, s: inference.SparseRegression(
            inference.LinearRegression(budget=b, bits=s, **LINEAR), n_features=1
        ).fit(*d),
        pair=ends(40, 2.0, -2.0),
        **{**NORMAL, "louder": GDP(400), "runs": 600},
    ),
    "HeldOutSearch": Fit(
        ask=_search(inference.HeldOutSearch, held_out=0.5), pair=ends(150, 0.0, 2.0), **SEARCHED
    ),
    "ValidationCurve": Fit(
        ask=_curve,
        pair=ends(150, 0.0, 2.0),
        **{**SEARCHED, "claim": GDP(2), "louder": GDP(400)},
    ),
    "CrossValidatedSearch": Fit(
        ask=_search(inference.CrossValidatedSearch), pair=ends(300, 0.0, 2.0), **SEARCHED
    ),
}

NOTHING_TOLD = {
    "diagnosis": "is asked of a session, which is audited as such",
    "binomial_power": "of a test that nobody has run",
    "mean_randomizer": "makes a mechanism, audited as such",
    "frequency_randomizer": "makes a mechanism, audited as such",
    "vector_randomizer": "makes a mechanism, audited as such",
}
