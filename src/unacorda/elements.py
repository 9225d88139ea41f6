"""Data that callers hand over: each element is read by itself, whatever stands beside it.

NumPy chooses the dtype of a list from all of its values, so that one person's value changes how
another's is read: beside 2^63 the integer 2^60 + 127 becomes a float and moves by 127, beside a
text every number becomes text. Here the *type* decides how data is read: an array by its dtype,
which is public, and everything else, lists, tuples, arrays of objects, masked arrays, columns of
pandas, polars and pyarrow with missing values of their own, element by element:

- integers, truth values, floats, Fractions and Decimals are the numbers they are, exactly;
  Decimals beyond 10^400 are infinite, and those below 10^-400 are 0;
- everything else is missing, NaN: None, text, complex numbers, dates, masked cells, lists where
  a number belongs. Nothing is parsed, and nothing is refused because of an element.

A list of rows has the width that is known from elsewhere, or that of its first row, which is
public like the shape of an array; a row of another width is missing as a whole.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import contextlib
import math
import numbers as kinds
import operator
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unacorda.errors import InvalidParameter

__all__ = [
    "Exact",
    "by_kind",
    "codes",
    "floats",
    "integers",
    "is_bare",
    "label",
    "nearest_float",
    "number",
    "numbers",
    "whole",
    "wholes",
]

Exact: TypeAlias = int | float | Fraction
"""What an element is read as; a Fraction only where no float is this number."""

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_NUMBERS: Final = "integers or floats of at most 64 bits"
_FLOAT_WHOLES: Final = 1 << 53  # float64 holds every integer up to here
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1
_DECIMAL_REACH: Final = 400  # beyond it in powers of ten, far outside of float64
_FLOAT_KINDS: Final = frozenset({float, np.float64, np.float32, np.float16})
_INTEGER_KINDS: Final = frozenset(
    {int, bool, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32}
)
_SCALARS: Final = (int, float, str)
_PLAIN: Final = frozenset({"Boolean", "String", "Binary", "Categorical", "Enum", "Null", "Object"})
"""Types of polars beside numbers whose elements have a reading."""
_FRAMES: Final = frozenset({"pandas", "polars", "pyarrow"})


def number(value: object) -> Exact:
    """One element as the number it is; NaN where it is none. Nothing raises.

    >>> number(True), number("7"), number(Fraction(1, 3)), number(Decimal("0.5"))
    (1, nan, Fraction(1, 3), 0.5)
    """
    kind = type(value)
    if kind is float or kind is int:
        return value  # type: ignore[return-value]
    if value is None or kind is str:
        return math.nan
    try:
        return _number(value)
    except Exception:  # noqa: BLE001  # an element's own code may raise anything; it is data
        return math.nan


def whole(value: Exact) -> int:
    """The nearest whole number, halves up; 0 for NaN, and at most 2^63 for infinities.

    Of two numbers at most d apart, d whole, the results are at most d apart.

    >>> whole(2.5), whole(-0.5), whole(math.nan)
    (3, 0, 0)
    """
    if isinstance(value, int):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return 0 if math.isnan(value) else _MOST if value > 0 else _LEAST
    return math.floor(Fraction(value) + Fraction(1, 2))


def wholes(values: Sequence[Any]) -> list[int]:
    """Each element as a Python integer of any size: `whole` of the number that it is."""
    return [value if type(value) is int else whole(number(value)) for value in values]


def nearest_float(value: Exact) -> float:
    """The nearest float64; beyond its range infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def label(value: object) -> Any:
    """One element as a label: text, bytes, or a number; None where it is none of them.

    Numbers of one value are one label, whatever their type: 1, 1.0 and True.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return bytes(value)
    found = number(value)
    return None if found != found else found  # noqa: PLR0124  # NaN


def is_bare(value: object) -> bool:
    """Whether a value is one element by itself, by its type: neither a list nor an array."""
    if isinstance(value, str | bytes | np.generic):
        return True
    return not (isinstance(value, Iterable) or hasattr(value, "__array__"))


def numbers(
    argument: str,
    values: object,
    *,
    dimensions: int | None = None,
    width: int | None = None,
    kinds: str = "biuf",
    expected: str = _NUMBERS,
) -> NDArray[Any]:
    """The values as an array of integers or of floats, or of `Exact` objects where these mix.

    dimensions: of a list that is read; by default as many as it has rows in rows. width: of the
    rows of a list of rows, or along the last axis; by default that of the first row. kinds: of
    dtypes that are taken; an array of objects, as a list, is always read by element. Which of the
    three an array of a list is may depend on all elements: what is made of an element must depend
    on its value alone, see `by_kind`.
    Raises InvalidParameter, which shows no data, for another dtype or another type of container.

    >>> numbers("x", [1, 2.5, None, "7"]).tolist()
    [1.0, 2.5, nan, nan]
    >>> numbers("x", [2**60 + 127, 2**63]).tolist()
    [1152921504606847103, 9223372036854775808]
    """
    array = _array(argument, values)
    if array is not None:
        if array.dtype.kind == "O":
            array = _masked(values, array) if isinstance(values, np.ma.MaskedArray) else array
            flat = _column(array.reshape(-1).tolist())
            return flat.reshape(array.shape)
        if array.dtype.kind not in kinds or array.dtype.itemsize > 8:
            raise InvalidParameter(argument, array.dtype, expected=expected)
        if isinstance(values, np.ma.MaskedArray):
            return _column(_masked(values, array).reshape(-1).tolist()).reshape(array.shape)
        return array
    if _is_frame(values):
        return _table([numbers(argument, column) for column in _columns(values)])
    if is_bare(values):
        return _column([values]).reshape(())
    rows = _row(values)
    if rows is None:
        shown = type(values).__name__
        raise InvalidParameter(argument, shown, expected="an array, a list or a column of numbers")
    return _nested(rows, dimensions, width)


def floats(
    argument: str,
    values: object,
    *,
    dimensions: int | None = None,
    width: int | None = None,
    kinds: str = "biuf",
    expected: str = _NUMBERS,
) -> Floats:
    """The values as the nearest float64; it may be the caller's own array, not to be written to.

    >>> floats("x", [10**400, 2**53 + 1, None]).tolist()
    [inf, 9007199254740992.0, nan]
    """
    array = numbers(
        argument, values, dimensions=dimensions, width=width, kinds=kinds, expected=expected
    )
    return _as_floats(array)


def integers(
    argument: str,
    values: object,
    *,
    dimensions: int | None = None,
    width: int | None = None,
    expected: str = "integers of at most 64 bits",
) -> Integers:
    """The values as int64: what is beyond ends there; of a list, `whole` of each element.

    Raises InvalidParameter for arrays of another dtype than integers and truth values.

    >>> integers("x", [2**64, 2.5, None, True]).tolist()
    [9223372036854775807, 3, 0, 1]
    """
    array = numbers(
        argument, values, dimensions=dimensions, width=width, kinds="biu", expected=expected
    )
    return by_kind(array, floats=_wholes, integers=_within, exact=_whole_within)


def by_kind(
    values: NDArray[Any],
    *,
    floats: Callable[[Floats], NDArray[Any]],
    integers: Callable[[NDArray[Any]], NDArray[Any]],
    exact: Callable[[int | Fraction], int],
) -> Integers:
    """Whole numbers made of `numbers`, each of its value alone, in the shape of the values.

    floats, integers: take arrays of float64, or of int64 or uint64; exact: one number that is
    neither. Where they are given the same number they must agree.
    """
    if values.dtype.kind == "f":
        made = floats(values.reshape(-1).astype(np.float64, copy=False))
        return made.reshape(values.shape)
    if values.dtype.kind != "O":
        wide = np.uint64 if values.dtype.kind == "u" else np.int64
        return integers(values.reshape(-1).astype(wide, copy=False)).reshape(values.shape)
    flat = values.reshape(-1).tolist()
    found = np.empty(len(flat), dtype=np.int64)
    of_floats, of_integers = [], []
    for place, value in enumerate(flat):
        if type(value) is float:
            of_floats.append(place)
        elif type(value) is int and _LEAST <= value <= _MOST:
            of_integers.append(place)
        else:
            found[place] = exact(value)
    found[of_floats] = floats(np.array([flat[i] for i in of_floats], dtype=np.float64))
    found[of_integers] = integers(np.array([flat[i] for i in of_integers], dtype=np.int64))
    return found.reshape(values.shape)


def codes(argument: str, values: object, *, kinds: str = "iubUST") -> tuple[Integers, list[Any]]:
    """Which of the labels each element is, in one dimension, and the labels, each once.

    Labels are sorted: numbers, then text, then bytes, and None for all that is missing.
    kinds: of dtypes that are taken; NaN is missing. Raises InvalidParameter for another dtype or
    more dimensions.

    >>> codes("users", ["b", 1, None, True, "b"])
    (array([1, 0, 2, 0, 1]), [1, 'b', None])
    """
    array = _array(argument, values)
    if array is None or array.dtype.kind == "O" or isinstance(values, np.ma.MaskedArray):
        if array is not None and array.ndim != 1:
            raise InvalidParameter(argument, array.shape, expected="one dimension")
        if isinstance(values, np.ma.MaskedArray) and array is not None:
            listed = _masked(values, array).tolist()
        else:
            found = None if is_bare(values) or _is_frame(values) else _row(values)
            if found is None:
                shown = type(values).__name__
                raise InvalidParameter(argument, shown, expected="an array or a list of labels")
            listed = list(found)
        return _coded(listed)
    if array.ndim != 1:
        raise InvalidParameter(argument, array.shape, expected="one dimension")
    if array.size and array.dtype.kind not in kinds:
        raise InvalidParameter(argument, array.dtype, expected="integers or text")
    if array.dtype.kind not in "iubUS":
        return _coded(array.tolist())
    different, places = np.unique(array, return_inverse=True)
    return places.reshape(-1).astype(np.int64), different.tolist()


def _number(value: Any) -> Exact:
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, np.timedelta64):  # NumPy calls it an integer
        return math.nan
    if isinstance(value, kinds.Integral):
        return int(operator.index(value))
    if isinstance(value, kinds.Rational):
        return _simple(Fraction(int(value.numerator), int(value.denominator)))
    if isinstance(value, Decimal):
        return _of_decimal(value)
    if isinstance(value, np.longdouble):
        return _simple(Fraction(*value.as_integer_ratio())) if np.isfinite(value) else float(value)
    if isinstance(value, kinds.Real):
        return float(value)
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "biufO":
        return math.nan if np.ma.is_masked(value) else number(value[()])
    return math.nan


def _of_decimal(value: Decimal) -> Exact:
    if value.is_nan():
        return math.nan
    if value.is_infinite() or (value and value.adjusted() > _DECIMAL_REACH):
        return math.copysign(math.inf, value)
    if not value or value.adjusted() < -_DECIMAL_REACH:
        return 0
    return _simple(Fraction(*value.as_integer_ratio()))


def _simple(value: Fraction) -> Exact:
    """The same number, as an int or a float where one is it."""
    if value.denominator == 1:
        return value.numerator
    near = nearest_float(value)
    return near if math.isfinite(near) and Fraction(near) == value else value


def _array(argument: str, values: object) -> NDArray[Any] | None:
    """An array whose dtype is public; None for what is to be read by element."""
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(values.data)
    if isinstance(values, np.ndarray):
        return np.asarray(values)
    if isinstance(values, Sequence | np.generic) or not _is_arraylike(values):
        return None
    frame = type(values).__module__.partition(".")[0] in _FRAMES
    if frame and (_is_frame(values) or not isinstance(getattr(values, "dtype", None), np.dtype)):
        return None
    with contextlib.suppress(Exception):  # another library's conversion; what it says may show data
        return np.asarray(values)
    raise InvalidParameter(argument, type(values).__name__, expected="an array of numbers")


def _is_arraylike(values: object) -> bool:
    if hasattr(values, "__array__") or hasattr(values, "__array_interface__"):
        return True
    with contextlib.suppress(TypeError):
        memoryview(values).release()  # type: ignore[arg-type]
        return True
    return False


def _masked(values: Any, array: NDArray[Any]) -> NDArray[Any]:
    """The elements as objects, None where they are masked."""
    elements = array.astype(object)
    elements[np.ma.getmaskarray(values)] = None
    return elements


def _is_frame(values: object) -> bool:
    """Whether this is a table of pandas, polars or pyarrow: by its type, columns of their own."""
    if type(values).__module__.partition(".")[0] not in _FRAMES:
        return False
    return hasattr(type(values), "columns")  # of a Series it may be somebody's label


def _columns(values: Any) -> list[Any]:
    if hasattr(values, "iloc"):
        return [values.iloc[:, place] for place in range(values.shape[1])]
    return list(values.get_columns() if hasattr(values, "get_columns") else values.columns)


def _row(value: Any) -> Sequence[Any] | None:
    """The elements of what is a sequence by its type; None for anything else."""
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, str | bytes | bytearray):
        return None
    if isinstance(value, np.ndarray):
        return list(value) if value.ndim else None
    if type(value).__module__.partition(".")[0] in _FRAMES:
        return _cells(value)
    if isinstance(value, Sequence):
        return list(value)
    if hasattr(value, "__array__"):
        with contextlib.suppress(Exception):
            array = np.asarray(value)
            return list(array) if array.ndim else None
    return None


def _cells(column: Any) -> list[Any] | None:
    """The elements of a column of pandas, polars or pyarrow; None for anything else of theirs.

    Where its type is neither one of numbers, text, bytes or labels nor one of lists of numbers, all
    are missing: such libraries fail at some dates, instants and durations.
    """
    kind, dtype = type(column), getattr(type(column), "dtype", None)
    if hasattr(kind, "columns"):
        return None
    if hasattr(kind, "to_pylist"):
        return _arrow_cells(column)
    if dtype is None or not (hasattr(kind, "to_list") or hasattr(kind, "tolist")):
        return None
    if kind.__module__.startswith("polars"):
        leaf = column.dtype
        while hasattr(leaf, "inner"):
            leaf = leaf.inner
        plain = leaf.is_numeric() or type(leaf).__name__ in _PLAIN
        return list(column.to_list()) if plain else [None] * len(column)
    if isinstance(column.dtype, np.dtype):
        return list(column.tolist())
    held = getattr(column, "array", column)
    if hasattr(held, "categories"):
        different = [*(_cells(held.categories) or ()), None]  # the last is that of code -1
        return [different[code] for code in held.codes]
    if hasattr(held, "__arrow_array__") and type(held).__name__.startswith("Arrow"):
        return _arrow_cells(held.__arrow_array__())
    return list(column.tolist())


def _arrow_cells(column: Any) -> list[Any]:
    import pyarrow as pa

    is_a = pa.types
    if isinstance(column, pa.ChunkedArray):
        return [cell for chunk in column.chunks for cell in _arrow_cells(chunk)]
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _arrow_cells(column.storage)
    if is_a.is_dictionary(kind):
        return _arrow_cells(column.cast(kind.value_type))
    if is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind):
        raw = column.cast(pa.binary_view() if is_a.is_string_view(kind) else pa.large_binary())
        return [None if one is None else one.decode(errors="replace") for one in raw.to_pylist()]
    leaf = kind
    while is_a.is_nested(leaf) and hasattr(leaf, "value_type"):
        leaf = leaf.value_type
    if is_a.is_primitive(leaf) or is_a.is_decimal(leaf):
        plain = not is_a.is_temporal(leaf)
    else:
        plain = is_a.is_null(leaf) or (leaf == kind and "binary" in str(kind))
    return list(column.to_pylist()) if plain else [None] * len(column)


def _column(values: Sequence[Any]) -> NDArray[Any]:
    """The elements in one dimension: all floats, all int64, or else floats or exact objects."""
    found = set(map(type, values))
    if found <= _FLOAT_KINDS:
        return np.array(values, dtype=np.float64)
    if found <= _INTEGER_KINDS:
        with contextlib.suppress(OverflowError):
            return np.array(values, dtype=np.int64)
    exact = [number(value) for value in values]
    found = set(map(type, exact))
    if found <= {int}:
        with contextlib.suppress(OverflowError):
            return np.array(exact, dtype=np.int64)
    elif found <= {int, float} and all(
        type(value) is float or -_FLOAT_WHOLES <= value <= _FLOAT_WHOLES for value in exact
    ):
        return np.array(exact, dtype=np.float64)
    mixed = np.empty(len(exact), dtype=object)
    mixed[:] = exact
    return mixed


def _nested(values: Sequence[Any], dimensions: int | None, width: int | None) -> NDArray[Any]:
    """A list, or a list of rows; see the top of the module.

    Without a number of dimensions it is rows if the first element is one, and so on; of a width it
    is rows of numbers then, or if it has another length and one of its elements is a row.
    """
    shape, level = [len(values)], values
    while level and (dimensions is None or len(shape) < dimensions):
        rows = [None if isinstance(value, _SCALARS) else _row(value) for value in level]
        first = next((row for row in rows if row is not None), None)
        last = len(shape) + 1 == dimensions
        if dimensions is None:
            if rows[0] is None and (first is None or width is None or len(level) == width):
                break
            last = width is not None
        elif first is None and not (last and width is not None):
            break
        size = width if last and width is not None else len(first or ())
        lost = [None] * size
        level = [
            element
            for row in rows
            for element in (row if row is not None and len(row) == size else lost)
        ]
        shape.append(size)
        if last:
            break
    return _column(level).reshape(shape)


def _table(columns: list[NDArray[Any]]) -> NDArray[Any]:
    """Columns side by side, each element what it is."""
    if not columns:
        return np.empty((0, 0))
    kinds_of = {column.dtype.kind for column in columns}
    if kinds_of <= {"f"}:
        return np.column_stack([column.astype(np.float64) for column in columns])
    if kinds_of <= {"i", "b"}:
        return np.column_stack([column.astype(np.int64) for column in columns])
    rows, width = len(columns[0]), len(columns)
    small = [
        column.dtype.kind == "f"
        or not column.size
        or bool((column <= _FLOAT_WHOLES).all() and (column >= -_FLOAT_WHOLES).all())
        for column in columns
        if column.dtype.kind in "biuf"
    ]
    if len(small) == width and all(small):
        return np.column_stack([column.astype(np.float64) for column in columns])
    mixed = np.empty((rows, width), dtype=object)
    for place, column in enumerate(columns):
        mixed[:, place] = column.tolist()
    return mixed


def _as_floats(array: NDArray[Any]) -> Floats:
    if array.dtype.kind != "O":
        return array.astype(np.float64, copy=False)
    flat = [nearest_float(value) for value in array.reshape(-1).tolist()]
    return np.array(flat, dtype=np.float64).reshape(array.shape)


@np.errstate(invalid="ignore")
def _wholes(values: Floats) -> Integers:
    found = np.floor(values)
    found += values - found >= 0.5
    found[np.isnan(values)] = 0.0
    steps: Integers = np.where(np.abs(found) < 2.0**63, found, 0.0).astype(np.int64)
    steps[found >= 2.0**63] = _MOST
    steps[found <= -(2.0**63)] = _LEAST
    return steps


def _within(values: NDArray[Any]) -> Integers:
    if values.dtype.kind == "u":
        values = np.minimum(values, np.uint64(_MOST))
    return values.astype(np.int64, copy=False)


def _whole_within(value: int | Fraction) -> int:
    return max(_LEAST, min(whole(value), _MOST))


def _coded(values: list[Any]) -> tuple[Integers, list[Any]]:
    found = set(map(type, values))
    labels = values if found <= {str} else [label(value) for value in values]
    different: list[Any] = sorted(set(labels), key=None if found <= {str} else _rank)
    places = {value: place for place, value in enumerate(different)}
    return np.array([places[value] for value in labels], dtype=np.int64), different


def _rank(value: Any) -> tuple[int, Any]:
    if value is None:
        return 3, 0
    if isinstance(value, str):
        return 1, value
    return (2, value) if isinstance(value, bytes) else (0, value)
