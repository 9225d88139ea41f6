"""A person's element of a list, whatever it is, neither makes a function refuse nor moves others.

Every public function that takes arrays stands in a table here, so that a new one cannot escape.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import ast
import functools
import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from tests.contracts.audited_fits import FITS, numbers_of
from tests.contracts.test_every_data_dependent_mechanism_is_covered import make as make_adaptive
from tests.contracts.test_every_mechanism_is_covered import leaves
from tests.hostile_elements import FEW, HOSTILE
from tests.mechanisms.every_mechanism import EVERY, make
from tests.mechanisms.faces import everything as mechanisms

import unacorda
from unacorda import attacks, audit, elements, inference
from unacorda.bits import SeededBits
from unacorda.mechanisms.data_dependent import Median

ROOMS: dict[str, Any] = {
    "mechanisms": mechanisms,
    "inference": inference,
    "audit": audit,
    "attacks": attacks,
}
ARRAYS = ("ArrayLike", "NDArray", "Floats", "Question")

# Arguments that are the caller's own, or public once they are there.
PUBLIC = {
    **dict.fromkeys(("reports", "tally", "among"), "reports are public"),
    **dict.fromkeys(("weights", "covariance", "moves", "box", "feature_bounds"), "public"),
    **dict.fromkeys(("shares", "answers", "released", "bins"), "public"),
    "probabilities": "of a model, known to the attacker",
}
NOT_PRIVATE = {
    "audit": "an auditor's own canaries, coins and scores, refused where they do not fit",
    "attacks": "an attacker's own numbers and made-up people, refused where they do not fit",
}

BOUNDS: dict[str, Any] = {"lower": 0, "upper": 10}
Call = Callable[[list[Any], Any], Any]
"""From a list, with an element of a person in it, and bits to what is released."""


def losses_of(values: list[Any], bits: Any) -> Any:
    own = mechanisms.InverseSensitivity(epsilon=1, answers=(0, 3))
    return own.release_losses([0.5, 1, 2], losses=values, bits=bits)


def edges_of(values: list[Any], bits: Any) -> Any:
    return make("PiecewiseConstantExponential").release(values, scores=[1, 2, 3, 4, 5], bits=bits)


def edges_of_losses(values: list[Any], bits: Any) -> Any:
    own = mechanisms.InverseSensitivity(epsilon=1, answers=(0, 3))
    return own.release_losses(values, losses=[1, 2, 3, 4, 5], bits=bits)


def row_of(values: list[Any]) -> list[list[Any]]:
    return [[value, 1] for value in values]


def sensitivity_of(values: list[Any], _: Any, *, name: str, more: dict[str, Any]) -> Any:
    return getattr(mechanisms, name)(Median(**BOUNDS), values, **more)


def released_by(values: list[Any], bits: Any, *, name: str, method: str) -> Any:
    mechanism = make(name) if name in EVERY else make_adaptive(name)
    if name == "PiecewiseConstantExponential":
        return mechanism.release([0.2, 0.5, 0.7], scores=values, bits=bits)
    return getattr(mechanism, method)(values, bits=bits)


SENSITIVITIES: dict[str, Call] = {
    f"mechanisms.{name}.values": functools.partial(sensitivity_of, name=name, more=more)
    for name, more in {
        "down_sensitivity": {},
        "local_sensitivity": {},
        "smooth_sensitivity": {"smoothness": 0.1},
    }.items()
}
OTHERS: dict[str, Call] = {
    **SENSITIVITIES,
    "mechanisms.clip_rows.values": lambda v, _: mechanisms.clip_rows(v, l2=5, unit_log2=-3),
    "mechanisms.clip_users.values": lambda v, _: mechanisms.clip_users(
        v, range(len(v)), l1=5, unit_log2=-3
    ),
    "mechanisms.clip_users.users": lambda v, _: mechanisms.clip_users(
        [1] * len(v), v, l1=5, unit_log2=-3
    ).sum(),
    "mechanisms.fixed_point_sum.values": lambda v, _: mechanisms.fixed_point_sum(
        v, unit_log2=-3, **BOUNDS
    ),
    "mechanisms.item_set_losses.people": lambda v, _: mechanisms.item_set_losses(
        v, range(len(v)), grid=[0, 1, 2, 9]
    ),
    "mechanisms.item_set_losses.items": lambda v, _: mechanisms.item_set_losses(
        range(len(v)), v, grid=[0, 1, 2, 9]
    ),
    "mechanisms.Exponential.log_probabilities.scores": lambda v, _: make(
        "Exponential"
    ).log_probabilities(v),
    "mechanisms.Exponential.release_rows.scores": lambda v, s: make("Exponential").release_rows(
        row_of(v), bits=s
    ),
    "mechanisms.InverseSensitivity.losses.values": lambda v, _: make_adaptive(
        "InverseSensitivity"
    ).losses(v),
    "mechanisms.InverseSensitivity.release_losses.losses": losses_of,
    "mechanisms.InverseSensitivity.release_losses.edges": edges_of_losses,
    "mechanisms.PiecewiseConstantExponential.release.edges": edges_of,
    "mechanisms.ShiftedInverse.release_losses.losses": lambda v, s: mechanisms.ShiftedInverse(
        epsilon=1, grid=[1, 2, 3, 4]
    ).release_losses(v, bits=s),
    "mechanisms.MatrixMechanism.release_cells.x": lambda v, s: make(
        "MatrixMechanism"
    ).release_cells(v, bits=s),
    "mechanisms.TopK.release_with_gaps.scores": functools.partial(
        released_by, name="TopK with gaps", method="release_with_gaps"
    ),
    "mechanisms.TreeSelection.release_with_trace.scores": lambda v, s: (
        make("TreeSelection").release_with_trace(v, bits=s).choice
    ),
    "mechanisms.Marginals.release.records": lambda v, s: make("Marginals").release(
        row_of(v), bits=s
    ),
    **{
        f"mechanisms.{name}.{method}.{argument}": functools.partial(
            released_by, name=name, method=method
        )
        for method, argument, names in (
            ("release_with_gap", "values", ("SparseVector",)),
            (
                *("release_array", "counts"),
                ("PartitionSelection", "ThresholdedGaussian", "ThresholdedLaplace"),
            ),
        )
        for name in names
    },
}
LISTED: dict[str, Call] = {**OTHERS}


def argument_names(function: Any) -> Iterator[str]:
    for name, parameter in inspect.signature(function).parameters.items():
        if any(word in str(parameter.annotation) for word in ARRAYS):
            yield name


def found_in(room: str) -> Iterator[tuple[str, str, str]]:
    """Each public name that takes arrays: the function or class, the method, the argument."""
    for name in ROOMS[room].__all__:
        value = getattr(ROOMS[room], name)
        if not inspect.isclass(value):
            for argument in argument_names(value) if callable(value) else ():
                yield name, "", argument
            continue
        for method, function in inspect.getmembers(value, inspect.isfunction):
            if not method.startswith("_"):
                for argument in argument_names(function):
                    yield name, method, argument


for _name, _method, _argument in found_in("mechanisms"):
    _full = f"mechanisms.{_name}.{_method}.{_argument}"
    if _method in {"release", "encode"} and _argument not in PUBLIC and _full not in LISTED:
        LISTED[_full] = functools.partial(released_by, name=_name, method=_method)


def test_every_function_of_arrays_is_listed() -> None:
    """A new public function that takes arrays has to be put into one of the tables."""
    missing = []
    for name, method, argument in found_in("mechanisms"):
        full = ".".join(part for part in ("mechanisms", name, method, argument) if part)
        if argument not in PUBLIC and full not in LISTED:
            missing.append(full)
    for name, method, argument in found_in("inference"):
        postprocessing = method in {
            *("predict", "predict_proba", "decision_function", "score", "transform"),
            "inverse_transform",
        }
        if argument not in PUBLIC and not postprocessing and name not in FITS:
            missing.append(f"inference.{name}.{method}.{argument}")
    assert missing == []
    assert set(ROOMS) - {"mechanisms", "inference"} == set(NOT_PRIVATE)


# ---- mechanisms

PLAIN: list[Any] = [1, 5, 3, 2]


def told(call: Call, values: list[Any]) -> list[float]:
    return list(leaves_of(call(values, SeededBits(3))))


def leaves_of(answer: Any) -> Iterator[float]:
    if hasattr(answer, "__dataclass_fields__"):
        for name in answer.__dataclass_fields__:
            yield from leaves_of(getattr(answer, name))
    elif isinstance(answer, list | tuple):
        for part in answer:
            yield from leaves_of(part)
    else:
        yield from leaves(answer)


# Their first element, one of several statistics, says by its type whether a list is rows of rows.
ANY_SHAPE = {
    *("BoundedLaplace", "DiscreteGaussian", "DiscreteLaplace", "Exponential", "Gaussian"),
    *("KNorm", "Laplace", "MultivariateGaussian", "Staircase", "TruncatedLaplace"),
    *("PartitionSelection", "ThresholdedGaussian", "ThresholdedLaplace", "Directions"),
}
ROWS = (list, np.ndarray, pandas.Series)
RARE = [pytest.param(name, marks=pytest.mark.slow) for name in HOSTILE if name not in FEW]


@pytest.mark.parametrize("hostile", [*FEW, *RARE])
def test_no_element_makes_a_mechanism_refuse(hostile: str) -> None:
    """With the element and with the number that it is read as, the answer is the same."""
    read = elements.number(HOSTILE[hostile])
    for name, call in LISTED.items():
        labels = name.endswith(("users", "people", "items"))
        shaped = name.split(".")[1] in ANY_SHAPE and isinstance(HOSTILE[hostile], ROWS)
        for place in (2,) if shaped else (0, 2):
            values, canonical = list(PLAIN), list(PLAIN)
            values[place] = HOSTILE[hostile]
            canonical[place] = elements.label(HOSTILE[hostile]) if labels else read
            assert repr(told(call, values)) == repr(told(call, canonical)), (name, place)


ROW_BY_ROW = (
    *("BoundedLaplace", "DiscreteGaussian", "DiscreteLaplace", "Gaussian", "Laplace"),
    *("Staircase", "TruncatedLaplace", "Duchi", "Piecewise", "Hybrid", "RandomizedResponse"),
)


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_one_element_leaves_the_noise_of_the_others_alone(name: str) -> None:
    mechanism, case = make(name), EVERY[name]
    for beside in (2**60 + 127, 0.1, 3):
        found = set()
        for hostile in (7, *(HOSTILE[few] for few in FEW)):
            # The last one, so that bits drawn for its rounding come after those of the others.
            answer = case(mechanism, [beside, 1, hostile], SeededBits(5))
            found.add(repr(answer[:2].tolist()))
        assert len(found) == 1, (name, beside)


def test_integers_stay_neighbors_beside_larger_ones() -> None:
    # NumPy makes floats of both, and moves the first by 127.
    sharp = mechanisms.Laplace(scale=1e-3, l1_sensitivity=1, grid_log2=0)
    beside: Any
    for beside in (2**63, 2**64, None, 0.5, "7", 10**400):
        exact: Any = [2**60 + 129, beside]
        assert sharp.release(exact)[0] == float(2**60 + 129)
    whole = mechanisms.DiscreteLaplace(scale=1e-3, l1_sensitivity=1)
    assert whole.release([2**60 + 127, 2**63])[0] == 2**60 + 127
    step: dict[str, Any] = {"lower": 0, "upper": 2**61, "unit_log2": 0}
    other: Any
    for other in (2**63, None, 0.5):
        both = mechanisms.fixed_point_sum([2**60 + 127, other], **step)
        alone = mechanisms.fixed_point_sum([other], **step)
        assert both - alone == 2**60 + 127


@pytest.mark.parametrize("unit_log2", [1, 3, 62, 63, 64, 65])
def test_equal_numbers_take_equal_steps(unit_log2: int) -> None:
    numbers = [*range(-9, 10), *(k * 2 ** (unit_log2 - 2) for k in range(-9, 10))]
    large: dict[str, Any] = {"lower": -(2**61) * 2**unit_log2, "upper": 2**61 * 2**unit_log2}
    for number in (int(n) for n in numbers if n == int(n) and -(2**63) <= n < 2**63):
        forms: list[Any] = [[number], np.array([number]), [number, None], [float(number)]]
        steps = {
            mechanisms.fixed_point_sum(values, unit_log2=unit_log2, **large) for values in forms
        }
        if number >= 0:
            steps.add(
                mechanisms.fixed_point_sum(
                    np.array([number], np.uint64), unit_log2=unit_log2, **large
                )
            )
        assert steps == {round(Fraction(number, 2**unit_log2))}, number


# ---- inference

SLOW = {"CrossValidatedSearch", "HeldOutSearch", "NoisySGD", "SparseRegression", "density"}
SEARCHES = {"CrossValidatedSearch", "HeldOutSearch"}
BY_DEVICE = {"LocalMEstimator", "LocalLinearRegression", "LocalLogisticRegression"}


def as_lists(data: Any) -> Any:
    return tuple(map(as_lists, data)) if isinstance(data, tuple) else np.asarray(data).tolist()


def with_last(data: Any, value: Any, *, column: int) -> Any:
    """The data as lists, where the last person's number, row or target is another."""
    if isinstance(data, tuple):
        some = list(map(as_lists, data))
        some[column % len(some)][-1] = value
        return tuple(some)
    found = as_lists(data)
    found[-1] = value
    return found


def answered(name: str, data: Any) -> list[float]:
    fit = FITS[name]
    if name == "RobustScaler":
        scaler = inference.RobustScaler(
            budget=fit.claim, feature_bounds=(0, 10), bits=SeededBits(4)
        )
        return [float(n) for n in numbers_of(scaler.fit([[value] for value in data]))]
    if name in SEARCHES:
        bits, ample = SeededBits(4), unacorda.ApproxDP(20, "0.01")
        line = inference.RidgeRegression(
            target_bounds=(-1, 1), penalty=1.0, feature_bounds=(-1, 1), budget=ample, bits=bits
        )
        rest: dict[str, Any] = {"tries": 2, "error_bound": 2.0, "bits": bits}
        kind = getattr(inference, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [kind(line, {"penalty": [1.0, 2.0]}, **rest).fit(*data).best_score_]
    if name == "SparseRegression":  # its choice of features is drawn by the system's bits there
        return [float(any(True for _ in numbers_of(fit.ask(data, fit.claim, SeededBits(4)))))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit.ask(data, fit.claim, SeededBits(4))
    return [float(number) for number in numbers_of(found)]


def same(one: list[float], other: list[float]) -> bool:
    return len(one) == len(other) and bool(
        np.allclose(one, other, rtol=1e-12, atol=0, equal_nan=True)
    )


def estimators() -> list[Any]:
    quick = [name for name in FITS if name not in SLOW | BY_DEVICE]
    return [*quick, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW & set(FITS))]


@pytest.mark.parametrize(
    "names",
    [("2^64", "None", "text", "list"), pytest.param(tuple(HOSTILE), marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("name", estimators())
def test_no_element_makes_inference_refuse(name: str, names: tuple[str, ...]) -> None:
    """As a list, with any element of a person, it answers as the array of the numbers read."""
    data = FITS[name].pair[0]
    labeled = name == "LogisticRegression"
    parts = data if isinstance(data, tuple) else (data,)
    assert same(answered(name, as_lists(data)), answered(name, data))
    for column, part in enumerate(parts):
        integers = np.asarray(part).dtype.kind in "iu"
        for hostile in names:
            value = HOSTILE[hostile]
            read: Any = elements.nearest_float(elements.number(value))
            if integers:
                read = int(elements.integers("x", [value], dimensions=1)[0])
            if np.ndim(part) == 2:
                row = elements.floats("X", [value], dimensions=2, width=np.shape(part)[1])
                read = row[0].tolist()
            if labeled and column == 1 and elements.label(value) not in (0, 1):
                read = math.nan
            one, other = (with_last(data, some, column=column) for some in (value, read))
            assert same(answered(name, one), answered(name, other)), (hostile, column)


@pytest.mark.long
@pytest.mark.parametrize("name", ["LinearRegression", "LogisticRegression", "PCA"])
def test_a_number_in_a_row_is_read_by_itself(name: str) -> None:
    data = FITS[name].pair[0]
    rows = data[0] if isinstance(data, tuple) else data
    for hostile in FEW:
        found = []
        for value in (HOSTILE[hostile], elements.nearest_float(elements.number(HOSTILE[hostile]))):
            listed = rows.tolist()
            listed[-1][0] = value
            found.append(answered(name, (listed, *data[1:]) if isinstance(data, tuple) else listed))
        assert same(*found), hostile


@pytest.mark.parametrize("hostile", HOSTILE)
def test_weights_are_read_one_by_one(hostile: str) -> None:
    x, y = FITS["LinearRegression"].pair[0]
    made: dict[str, Any] = {
        "feature_bounds": (-1, 1),
        "target_bounds": (-2, 2),
        "budget": unacorda.GDP(3),
    }
    found = [
        inference.LinearRegression(**made, bits=SeededBits(1))
        .fit(x, y, sample_weight=[1.0] * (len(y) - 1) + [weight])
        .coef_.tolist()
        for weight in (
            HOSTILE[hostile],
            elements.nearest_float(elements.number(HOSTILE[hostile])),
        )
    ]
    assert same(*found)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_devices_send_a_report_whatever_they_hold(hostile: str) -> None:
    value = HOSTILE[hostile]
    budget = unacorda.PureDP(2)
    for randomizer in (
        inference.mean_randomizer(lower=0, upper=1, budget=budget),
        inference.frequency_randomizer(categories=3, budget=budget),
    ):
        assert len(randomizer.encode([value, 1], bits=SeededBits(1))) == 2
    for epsilon in (budget, unacorda.GDP(1)):
        vectors = inference.vector_randomizer(size=2, radius=1, budget=epsilon)
        for x in ([[value, 1], [0, 1]], [[0, 1], value]):
            assert np.shape(vectors.release(x, bits=SeededBits(1))) == (2, 2)


# ---- the one reader

SOURCE = Path(unacorda.__file__).parent
READS = {"asarray", "array", "asanyarray", "fromiter", "ascontiguousarray", "atleast_1d"}
ALLOWED = {
    "mechanisms/shaped/vectors.py": "a covariance and bounds of moves, public",
    "mechanisms/noise/rounding.py": "steps that are released, and floats that the reader has read",
    "mechanisms/data_dependent/sensitivities.py": "losses of made-up records",
    "audit/learned.py": "outputs of the mechanism that is audited",
    "inference/transformers.py": "scores, which are no release",
    "inference/regression/results.py": "public labels of classes",
    "inference/hypothesis_tests/counts.py": "a statistic that was released",
    "inference/regression/sparse.py": "public labels of classes",
    "inference/contract.py": "public labels of classes",
    "mechanisms/data_dependent/statistics/base.py": "places that were counted",
    "mechanisms/data_dependent/statistics/variances.py": "conditions on numbers that were read",
    "audit/canary.py": "labels of the auditor, an array by its dtype",
}


def arguments_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    given = function.args
    return {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}


@pytest.mark.parametrize("room", [*ROOMS, "learning"])
def test_arguments_become_arrays_in_the_reader_alone(room: str) -> None:
    """NumPy reads a list as a whole, so no function hands it an argument of its own."""
    for path in sorted((SOURCE / room).rglob("*.py")):
        where = path.relative_to(SOURCE).as_posix()
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            names = arguments_of(function)
            for call in ast.walk(function):
                if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                    continue
                first = call.args[0] if call.args else None
                of_numpy = isinstance(call.func.value, ast.Name) and call.func.value.id == "np"
                handed = isinstance(first, ast.Name) and first.id in names
                if of_numpy and handed and call.func.attr in READS and where not in ALLOWED:
                    pytest.fail(f"{where}:{call.lineno} reads an argument of {function.name}")
