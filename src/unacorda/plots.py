"""Pictures: values in, axes out. Nothing is computed here, and nothing private is asked for.

Every function draws on the axes it is given, or on new ones, and returns them; save the picture
with ``axes.figure.savefig(path)``. `new_axes` gives another size or resolution, and colors that
people with any kind of color vision tell apart (Okabe and Ito 2008). Needs
`pip install 'unacorda[plots]'`.
docs/gallery.md shows them all.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda import checks
from unacorda.errors import InvalidParameter
from unacorda.extras import require

__all__ = [
    "amplification",
    "budget",
    "coverage",
    "errors",
    "errors_over",
    "influence",
    "new_axes",
    "privacy_loss",
    "profile",
    "roc",
    "tradeoff",
    "utility",
]

Floats = NDArray[np.float64]

_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_BAND: Final = {"alpha": 0.25, "linewidth": 0}
_FAINT: Final = {"color": "0.45", "linewidth": 1, "linestyle": "--", "zorder": 1}
_EDGE: Final = {"clip_on": False, "zorder": 3}  # curves along the frame are seen too
_MARKERS: Final = "os^Dv<>P"


def tradeoff(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    audited: tuple[ArrayLike, ArrayLike] | None = None,
    confidence: float | None = None,
    axes: Any = None,
) -> Any:
    """Trade-off curves: by name the false-alarm rates and the miss rates at these.

    audited: rates of tests that were really made, as an audit bounds them from above, such as
    `attacks.error_region` gives: where both are larger no curve of the mechanism can be, and a
    promise whose curve runs there is refuted. confidence: of these bounds, for the legend.

    >>> grid = np.linspace(0, 1, 11)
    >>> axes = tradeoff({"chance": (grid, 1 - grid)})
    >>> axes.get_xlabel()
    'false-alarm rate'
    """
    axes = _axes(axes, size=(5, 5))
    axes.plot([0, 1], [1, 0], label="guessing", **_FAINT)
    for name, (alpha, beta) in _named("curves", curves, 2):
        axes.plot(*_lines(name, alpha, beta), label=name, **_EDGE)
    if audited is not None:
        x, y = _lines("audited", *audited)
        order = np.argsort(x, kind="stable")
        x, y = x[order], np.minimum.accumulate(y[order])
        sure = "" if confidence is None else f" ({confidence:.4g} confidence)"
        axes.plot(x, y, "k.", label=f"audited{sure}", **_EDGE)
        x, y = np.append(x, 1.0), np.append(y, y[-1])
        axes.fill_between(x, y, 1, step="post", color="0.5", label="ruled out by it", **_BAND)
    axes.set(xlabel="false-alarm rate", ylabel="miss rate", xlim=(0, 1), ylim=(0, 1))
    axes.set_aspect("equal")
    axes.legend(loc="upper right")
    return axes


def profile(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]], *, axes: Any = None
) -> Any:
    """Curves of delta over epsilon: by name epsilons and the certified lower and upper deltas.

    >>> axes = profile({"one": ([0, 1], [1e-3, 1e-5], [2e-3, 2e-5])})
    >>> axes.get_yscale()
    'log'
    """
    axes = _axes(axes)
    axes.set(xlabel="epsilon", ylabel="delta", yscale="log")
    for name, (epsilon, lower, upper) in _named("curves", curves, 3):
        x, low = _lines(name, epsilon, lower)
        _, high = _lines(name, epsilon, upper)
        (line,) = axes.plot(x, high, label=name)
        axes.fill_between(x, low, high, color=line.get_color(), **_BAND)
    axes.legend(loc="upper right")  # curves fall
    return axes


def privacy_loss(
    laws: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    axes: Any = None,
) -> Any:
    """Privacy loss distributions: by name the losses on a grid and the density at each.

    The density is the mass over the step of the grid, so that distributions on several grids can
    be compared. epsilon: a loss to mark; delta: which pays for what lies to its right, for the
    legend.

    >>> privacy_loss({"coin": ([-1.0, 1.0], [0.27, 0.73])}).get_xlabel()
    'privacy loss'
    """
    axes = _axes(axes)
    for name, (losses, densities) in _named("laws", laws, 2):
        x, y = _lines(name, losses, densities)
        (line,) = axes.plot(x, y, drawstyle="steps-mid", label=name)
        axes.fill_between(x, 0, y, step="mid", color=line.get_color(), **_BAND)
    axes.axvline(0, **_FAINT)
    if epsilon is not None:
        at = "" if delta is None else f" at delta {delta:g}"
        axes.axvline(epsilon, color="black", linestyle=":", label=f"epsilon {epsilon:.4g}{at}")
    axes.set(xlabel="privacy loss", ylabel="density")
    axes.set_ylim(0, 1.3 * axes.get_ylim()[1])  # with room for the legend
    axes.legend()
    return axes


def amplification(rates: ArrayLike, ratios: Mapping[str, ArrayLike], *, axes: Any = None) -> Any:
    """By name, the epsilon of a sample over its share of the whole's, against the rate.

    rates: of sampling; ratios: epsilon of the sampled mechanism over rate times epsilon of the
    mechanism on everybody: 1 where a sample costs no more than its share.

    >>> amplification([0.01, 0.1], {"sigma 2": [1.1, 1.5]}).get_xscale()
    'log'
    """
    axes = _axes(axes)
    axes.axhline(1, label="in proportion to the rate", **_FAINT)
    for (name, values), marker in zip(
        _named("ratios", ratios), itertools.cycle(_MARKERS), strict=False
    ):
        axes.plot(*_lines(name, rates, values), marker=marker, markersize=4, label=name)
    axes.set(
        xscale="log",
        xlabel="sampling rate",
        ylabel="epsilon / (rate × epsilon of the whole)",
    )
    axes.xaxis.set_major_formatter(_plain)
    axes.legend()
    return axes


def budget(
    times: Sequence[Any],
    spent: Mapping[str, ArrayLike],
    *,
    limit: float,
    axes: Any = None,
) -> Any:
    """What was spent over time, by name, each in one currency, and how much there is.

    times: numbers, or instants; spent: the sums from each of them on.

    >>> axes = budget([1, 2, 3], {"rho": [0.1, 0.3, 0.4]}, limit=1.0)
    >>> round(axes.get_ylim()[1], 2).item()
    1.08
    """
    axes = _axes(axes)
    largest = float(limit)
    for name, values in _named("spent", spent):
        _, sums = _lines(name, np.arange(len(times)), values)
        largest = max(largest, float(sums.max()))
        axes.step(times, sums, where="post", label=name)
    axes.axhline(limit, color="black", linestyle="--", label="budget")
    if len(times) and all(isinstance(time, dt.date) for time in times):
        _date_axis(axes)
    axes.set(xlabel="time", ylabel="spent", ylim=(0, 1.08 * largest))
    axes.legend()
    return axes


def errors(
    names: Sequence[str],
    values: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    series: Sequence[str] | None = None,
    bars: bool = False,
    possible: tuple[float, float] | None = None,
    axes: Any = None,
) -> Any:
    """Released values with their intervals, one line a name; NaN where there is none.

    series: of each value, in a color of its own, where names repeat; bars: from 0, as suits counts;
    possible: the range that was known beforehand, shaded: an interval as wide says nothing.

    >>> errors(["a", "b"], [3.0, 4.0], [2.5, 3.8], [3.5, 4.2]).get_yticks().tolist()
    [0, 1]
    """
    groups, x, low, high = _intervals(values, lower, upper, series, names=names)
    lines = list(dict.fromkeys(names))
    step = 0.8 / max(len(groups), 1)
    height = 1 + max(0.25, 0.18 * len(groups)) * len(lines)
    axes = _axes(axes, size=(6, min(max(2.5, height), 20)))
    if possible is not None:
        axes.axvspan(*possible, color="0.5", label="known beforehand", **_BAND)
    places = np.array([lines.index(name) for name in names], dtype=np.float64)
    for place, (name, own) in enumerate(groups.items()):
        at = places[own] + (place - (len(groups) - 1) / 2) * step
        if bars:
            drawn = axes.barh(at, x[own], height=0.9 * step, alpha=0.6, label=name, zorder=2)
            color = drawn.patches[0].get_facecolor()[:3]
        else:
            (drawn,) = axes.plot(x[own], at, "o", label=name)
            color = drawn.get_color()
        held = own & ~np.isnan(low) & ~np.isnan(high)
        at = at[held[own]]
        axes.hlines(at, low[held], high[held], color="black" if bars else color, zorder=3)
        for ends in (low, high):
            marks = {"color": "black" if bars else color, "markersize": min(8, 20 * step)}
            axes.plot(ends[held], at, "|", zorder=3, **marks)
    axes.set_yticks(np.arange(len(lines)), lines)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.xaxis.set_major_formatter(_thousands)
    axes.xaxis.set_major_locator(_few_ticks())
    if series is not None or possible is not None:
        axes.legend()
    return axes


def errors_over(
    places: Sequence[Any],
    values: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    series: Sequence[str] | None = None,
    axes: Any = None,
) -> Any:
    """Released values with their intervals at numbers or dates; NaN where there is none.

    series: of each value, in a color of its own, where places repeat.

    >>> bool(errors_over([2024, 2025], [3.0, 4.0], [2.5, 3.8], [3.5, 4.2]).get_ylim()[0] > 0)
    True
    """
    groups, y, low, high = _intervals(values, lower, upper, series, places=places)
    axes = _axes(axes)
    for (name, own), marker in zip(groups.items(), itertools.cycle(_MARKERS), strict=False):
        at = [place for place, chosen in zip(places, own, strict=True) if chosen]
        (line,) = axes.plot(at, y[own], marker=marker, markersize=4, linewidth=0.8, label=name)
        held = ~np.isnan(low[own]) & ~np.isnan(high[own])
        ends = [place for place, chosen in zip(at, held, strict=True) if chosen]
        axes.vlines(ends, low[own][held], high[own][held], color=line.get_color())
    if all(isinstance(place, dt.date) for place in places):
        _date_axis(axes)
    elif all(place == int(place) for place in places):
        axes.xaxis.set_major_locator(_few_ticks(integer=True))
    axes.yaxis.set_major_formatter(_thousands)
    if series is not None:
        axes.legend()
    return axes


def coverage(
    sizes: ArrayLike,
    shares: Mapping[str, ArrayLike],
    *,
    nominal: float = 0.95,
    nominal_name: str = "promised",
    axes: Any = None,
) -> Any:
    """How often something held, such as intervals the truth, against the number of people.

    shares: by name; nominal: the share that should be reached, called `nominal_name`.

    >>> coverage([100, 1000], {"ours": [0.94, 0.95]}).get_xscale()
    'log'
    """
    axes = _axes(axes)
    axes.axhline(nominal, label=f"{nominal_name}: {nominal:.4g}", **_FAINT)
    for (name, values), marker in zip(
        _named("shares", shares), itertools.cycle(_MARKERS), strict=False
    ):
        axes.plot(*_lines(name, sizes, values), marker=marker, label=name)
    axes.set(xscale="log", xlabel="people", ylabel="coverage")
    axes.xaxis.set_major_formatter(_thousands)
    axes.legend()
    return axes


def influence(
    values: ArrayLike,
    curves: Mapping[str, ArrayLike],
    *,
    bounds: Mapping[str, float] | None = None,
    xlabel: str = "residual",
    ylabel: str = "influence",
    axes: Any = None,
) -> Any:
    """How far one more row moves a coefficient, or what it weighs, against a value of the row.

    values: of a residual or a feature; curves: by name, such as a column of a fit's
    `influence(X, y)` or weights; bounds: by the same names the most that a curve can be in size,
    such as `gross_error_sensitivity_`, drawn on both sides.

    >>> grid = np.linspace(-5, 5, 11)
    >>> influence(grid, {"cut at 2": np.clip(grid, -2, 2)}, bounds={"cut at 2": 2}).get_xlabel()
    'residual'
    """
    axes = _axes(axes)
    axes.axhline(0, **_FAINT)
    for name, curve in _named("curves", curves):
        (line,) = axes.plot(*_lines(name, values, curve), label=name)
        if bounds is not None and name in bounds:
            for end in (-bounds[name], bounds[name]):
                axes.axhline(end, color=line.get_color(), linewidth=1, linestyle=":")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend()
    return axes


def roc(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    limits: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    least: float = 1e-3,
    axes: Any = None,
) -> Any:
    """Attacks: by name false-positive and true-positive rates, on log axes from `least` on.

    limits: by name the most that a promise lets any attack reach, at these false-positive rates.
    Rates below `least` are drawn at it.

    >>> roc({"attack": ([0.0, 0.01, 1.0], [0.2, 0.6, 1.0])}).get_xscale()
    'log'
    """
    axes = _axes(axes)
    chance = np.array([least, 1.0])
    axes.plot(chance, chance, label="chance", **_FAINT)
    for name, (alarms, hits) in _named("limits", limits or {}, 2):
        x, y = _lines(name, alarms, hits)
        ends = np.maximum(x, least), np.maximum(y, least)
        axes.plot(*ends, color="black", linestyle=":", label=name, **_EDGE)
    for name, (alarms, hits) in _named("curves", curves, 2):
        x, y = _lines(name, alarms, hits)
        ends = np.maximum(x, least), np.maximum(y, least)
        axes.plot(*ends, drawstyle="steps-post", label=name, **_EDGE)
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(least, 1),
        ylim=(least, 1),
        xlabel="false-positive rate",
        ylabel="true-positive rate",
    )
    axes.xaxis.set_major_formatter(_plain)
    axes.yaxis.set_major_formatter(_plain)
    axes.legend()
    return axes


def utility(
    epsilons: ArrayLike,
    errors: Mapping[str, ArrayLike],
    *,
    least: ArrayLike | None = None,
    axes: Any = None,
) -> Any:
    """Draws errors over epsilon, on log axes: by name, the error of a mechanism at each epsilon.

    least: the error that no mechanism beats, such as `accounting.lower_bound` gives: shaded below.

    >>> utility([0.1, 1.0], {"Gaussian": [0.5, 0.1]}, least=[0.1, 0.02]).get_xscale()
    'log'
    """
    axes = _axes(axes)
    for (name, values), marker in zip(
        _named("errors", errors), itertools.cycle(_MARKERS), strict=False
    ):
        axes.plot(*_lines(name, epsilons, values), marker=marker, markersize=4, label=name)
    axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="root mean squared error")
    axes.xaxis.set_major_formatter(_plain)
    if least is not None:
        x, y = _lines("least", epsilons, least)
        axes.plot(x, y, color="black", label="no mechanism errs less")
        lowest = axes.get_ylim()[0]
        axes.fill_between(x, lowest, y, color="0.5", **_BAND)
        axes.set_ylim(bottom=lowest)
    axes.legend()
    return axes


def new_axes(*, size: tuple[float, float] = (6, 4), dpi: float = 150) -> Any:
    """Makes the axes of a new figure, for the `axes=` of every function here.

    size: width and height in inches; dpi: dots an inch, of a picture of dots such as PNG.

    >>> new_axes(size=(8, 3), dpi=300).figure.get_size_inches().tolist()
    [8.0, 3.0]
    """
    for side in size:
        checks.positive(size=side)
    checks.positive(dpi=dpi)
    require("matplotlib", extra="plots")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_prop_cycle(color=_COLOURS)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(alpha=0.3)
    return axes


def _axes(axes: Any, *, size: tuple[float, float] = (6, 4)) -> Any:
    """The axes given, or those of a new figure that is not a window."""
    return new_axes(size=size) if axes is None else axes


def _thousands(value: float, _place: int | None = None) -> str:
    """A number on an axis, with separators: 12,000 and 0.25."""
    text = f"{value:,.10g}"
    return text.replace("-", "\N{MINUS SIGN}", 1) if text.startswith("-") else text


def _plain(value: float, _place: int | None = None) -> str:
    """A number on a logarithmic axis: 0.001, 10 and 10,000; powers of ten beyond."""
    return f"{value:,.6g}" if 1e-4 <= value < 1e7 else f"{value:.0e}".replace("e-0", "e-")


def _few_ticks(*, integer: bool = False) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=7, steps=[1, 2, 5, 10], integer=integer)


def _date_axis(axes: Any) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    # With these two it finds an interval for every range, from seconds to centuries.
    places = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(places)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(places))  # type: ignore[no-untyped-call]


def _intervals(
    values: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    series: Sequence[str] | None,
    **keys: Sequence[Any],
) -> tuple[dict[str, Any], Floats, Floats, Floats]:
    """Which values each series has, and the values with both ends of their intervals."""
    x, low = _lines("lower", values, lower)
    _, high = _lines("upper", values, upper)
    for name, given in (*keys.items(), ("series", series)):
        if given is not None and len(given) != x.size:
            raise InvalidParameter(name, len(given), expected=f"{x.size} of them, one a value")
    owners = np.array([""] * x.size if series is None else list(map(str, series)))
    return {str(name): owners == name for name in dict.fromkeys(owners.tolist())}, x, low, high


def _named(argument: str, lines: Mapping[str, Any], together: int = 1) -> list[tuple[str, Any]]:
    """The lines by name, each `together` arrays; InvalidParameter for anything else."""
    arrays = "an array" if together == 1 else f"a tuple of {together} arrays"
    if not isinstance(lines, Mapping):
        expected = f"a mapping from names for the legend to {arrays} each"
        raise InvalidParameter(argument, type(lines), expected=expected)
    for name, arrays_of in lines.items():
        if together > 1 and (not hasattr(arrays_of, "__len__") or len(arrays_of) != together):
            raise InvalidParameter(f"{argument}[{name!r}]", type(arrays_of), expected=arrays)
    return list(lines.items())


def _lines(name: str, x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Two lines of numbers of one length; NaN leaves a gap."""
    expected = "two lines of numbers of one length"
    try:
        first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        first = None
    if first is None:
        raise InvalidParameter(name, "values of another kind", expected=expected)
    if first.ndim != 1 or first.shape != second.shape or not first.size:
        shapes = f"arrays of shapes {first.shape} and {second.shape}"
        raise InvalidParameter(name, shapes, expected=expected)
    return first, second
