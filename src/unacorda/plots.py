"""Plots: values in, axes out. Nothing is computed here, and no private data are used.

Every function draws on given axes or on new ones, and returns them; save the plot with
``axes.figure.savefig(path)``. `new_axes` sets size and resolution, and colors that people with any
kind of color vision can distinguish (Okabe and Ito 2008). Needs `pip install 'unacorda[plots]'`.
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
    "answers_over_time",
    "budget",
    "calibration_curve",
    "coverage",
    "errors",
    "errors_over",
    "importance_plot",
    "influence",
    "lift_curve",
    "new_axes",
    "normal_plot",
    "precision_recall_curve",
    "privacy_loss",
    "profile",
    "residual_histogram",
    "residual_plot",
    "roc",
    "roc_curve",
    "tradeoff",
    "utility",
    "validation_plot",
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
    """Draw trade-off curves.

    Parameters
    ----------
    curves
        By name, false-alarm rates and the miss rates at these.
    audited
        Pairs of rates (false alarms, misses) of actual tests, as upper bounds from an audit such as
        `attacks.error_region`. The mechanism's curve cannot pass where both rates are larger, and a
        guarantee whose curve does is refuted.
    confidence
        Of these bounds, for the legend.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
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
    """Draw curves of delta over epsilon.

    Parameters
    ----------
    curves
        By name epsilons and the certified lower and upper deltas at these.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
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
    """Draw privacy loss distributions.

    The density is the mass divided by the step of the grid, so that distributions on several grids
    can be compared.

    Parameters
    ----------
    laws
        By name the losses on a grid and the density at each.
    epsilon
        A loss to mark.
    delta
        The delta that covers the losses to its right, for the legend.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
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
    """Draw the relative epsilon of a sampled mechanism against the sampling rate.

    Parameters
    ----------
    rates
        Of sampling, from above 0 to 1.
    ratios
        By name, one ratio per rate: the epsilon of the sampled mechanism over rate times that of
        the mechanism on the whole table. It is 1 if a sample costs no more than its share.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
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
    """Draw the spending over time in one unit, and the budget.

    Parameters
    ----------
    times
        Numbers, or instants.
    spent
        By name, the sums from each of the times on.
    limit
        The budget, in the same unit.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
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
    """Draw released values with their intervals, one line per name.

    Parameters
    ----------
    names
        One a value.
    values, lower, upper
        Numbers, NaN where there is none.
    series
        The series of each value, with a color of its own, if names repeat.
    bars
        Draw bars from 0, as suits counts.
    possible
        The range (lower, upper) that was known beforehand, shaded; an interval as wide carries no
        information.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
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
    """Draw released values with their intervals at numbers or dates.

    Parameters
    ----------
    places
        A number or a date for each value.
    values, lower, upper
        Numbers, NaN where there is none.
    series
        The series of each value, with a color of its own, if places repeat.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
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


def answers_over_time(
    days: Sequence[Any],
    curves: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike]],
    *,
    ylabel: str = "",
    axes: Any = None,
) -> Any:
    """Draw answers step by step, with their bands.

    Parameters
    ----------
    days
        Of the steps, dates or instants.
    curves
        By name values, and the lower and upper ends of their bands.
    ylabel
        Of the values.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> days = [dt.date(2025, 1, 1), dt.date(2025, 1, 2)]
    >>> axes = answers_over_time(days, {"n": ([1, 2], [0, 1], [2, 3])}, ylabel="visits so far")
    >>> axes.get_ylabel()
    'visits so far'
    """
    axes = _axes(axes)
    named = _named("curves", curves, together=3)
    for name, (values, lower, upper) in named:
        sizes = {len(np.asarray(one)) for one in (days, values, lower, upper)}
        checks.demand(len(sizes) == 1, f"curves[{name!r}]", sorted(sizes), expected="equal lengths")
        (line,) = axes.plot(days, np.asarray(values, dtype=np.float64), label=name)
        axes.fill_between(days, lower, upper, color=line.get_color(), **_BAND)
    if days:
        _date_axis(axes)
    axes.yaxis.set_major_formatter(_thousands)
    axes.set_ylabel(ylabel)
    if len(named) > 1:
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
    """Draw rates, such as the coverage of intervals, against the number of people.

    Parameters
    ----------
    sizes
        Numbers of people, above 0.
    shares
        By name the share from 0 to 1 at each size.
    nominal, nominal_name
        The share that should be reached, and its name in the legend.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
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
    """Draw the influence or the weight of one more row against a value of the row.

    Parameters
    ----------
    values
        Of a residual or a feature.
    curves
        By name, such as a column of a fit's `influence(X, y)`, or weights.
    bounds
        By the same names, the largest absolute value of a curve, such as
        `gross_error_sensitivity_`, drawn on both sides.
    xlabel, ylabel
        Of the axes.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
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
    """Draw the ROC curves of attacks, on log axes.

    Parameters
    ----------
    curves
        By name false-positive and true-positive rates.
    limits
        By name, the largest true-positive rates that a guarantee allows, at these false-positive
        rates.
    least
        The start of the axes; rates below it are drawn at it.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
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
    """Draw errors over epsilon, on log axes.

    Parameters
    ----------
    epsilons
        Numbers above 0.
    errors
        By name the error of a mechanism at each epsilon.
    least
        An error that no mechanism can beat, such as from `accounting.lower_bound`; shaded below.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
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


def roc_curve(curves: Mapping[str, Any], *, axes: Any = None) -> Any:
    """Draw ROC curves of classifiers, with bands.

    The band holds the true-positive rate at each threshold.

    Parameters
    ----------
    curves
        By name the frames of `ScoreTable.roc`.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> frame = {"false_positive_rate": [0, 0.2, 1], "true_positive_rate": [0, 0.7, 1]}
    >>> roc_curve({"model": frame | {"lower": [0, 0.6, 1], "upper": [0, 0.8, 1]}}).get_xlabel()
    'false-positive rate'
    """
    axes = _axes(axes, size=(5, 5))
    axes.plot([0, 1], [0, 1], label="at random", **_FAINT)
    _bands(axes, "curves", curves, "false_positive_rate", "true_positive_rate")
    axes.set(xlabel="false-positive rate", ylabel="true-positive rate", xlim=(0, 1), ylim=(0, 1))
    axes.set_aspect("equal")
    axes.legend(loc="lower right")
    return axes


def precision_recall_curve(curves: Mapping[str, Any], *, axes: Any = None) -> Any:
    """Draw precision over recall of classifiers, with bands.

    Parameters
    ----------
    curves
        By name the frames of `ScoreTable.precision_recall`.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> frame = {"recall": [0.5, 1], "precision": [0.9, 0.3]}
    >>> bands = {"lower": [0.8, 0.29], "upper": [1, 0.31]}
    >>> precision_recall_curve({"model": frame | bands}).get_ylabel()
    'precision'
    """
    axes = _axes(axes)
    _bands(axes, "curves", curves, "recall", "precision")
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
    axes.legend(loc="lower left")
    return axes


def lift_curve(curves: Mapping[str, Any], *, axes: Any = None) -> Any:
    """Draw lift over the share of rows with the highest scores.

    Parameters
    ----------
    curves
        By name the frames of `ScoreTable.lift`.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> frame = {"share": [0.1, 1], "lift": [3, 1], "lower": [2.5, 1], "upper": [3.5, 1]}
    >>> lift_curve({"model": frame}).get_ylabel()
    'lift'
    """
    axes = _axes(axes)
    axes.axhline(1, label="at random", **_FAINT)
    _bands(axes, "curves", curves, "share", "lift")
    axes.set(xlabel="share of rows, highest scores first", ylabel="lift", xlim=(0, 1))
    axes.legend(loc="upper right")
    return axes


def calibration_curve(curves: Mapping[str, Any], *, axes: Any = None) -> Any:
    """Draw shares of positives over scores.

    Parameters
    ----------
    curves
        By name the frames of `ScoreTable.calibration`.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> frame = {"score": [0.2, 0.7], "observed": [0.25, 0.6]}
    >>> ends = {"lower": [0.2, 0.5], "upper": [0.3, 0.7]}
    >>> calibration_curve({"model": frame | ends}).get_xlabel()
    'score'
    """
    axes = _axes(axes, size=(5, 5))
    axes.plot([0, 1], [0, 1], label="calibrated", **_FAINT)
    _bands(axes, "curves", curves, "score", "observed", marker="o")
    axes.set(xlabel="score", ylabel="share of positives", xlim=(0, 1), ylim=(0, 1))
    axes.set_aspect("equal")
    axes.legend(loc="upper left")
    return axes


def residual_plot(frame: Any, *, xlabel: str = "prediction", axes: Any = None) -> Any:
    """Draw mean residuals by bins, with bands, and the mean minus and plus the spread.

    Parameters
    ----------
    frame
        That of `ResidualTable.by_bins`.
    xlabel
        What the bins are of.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> ends = {"low": [0, 1], "high": [1, 2], "lower": [-0.1, 0.1], "upper": [0.1, 0.3]}
    >>> residual_plot(ends | {"mean": [0, 0.2], "spread": [1, 1]}).get_ylabel()
    'residual'
    """
    axes = _axes(axes)
    middle = (np.asarray(frame["low"], dtype=np.float64) + np.asarray(frame["high"])) / 2
    axes.axhline(0, **_FAINT)
    _bands(axes, "frame", {"mean": dict(frame) | {"middle": middle}}, "middle", "mean", marker="o")
    mean, spread = _lines("spread", frame["mean"], frame["spread"])
    for sign, label in ((-1, "mean ± spread"), (1, None)):
        axes.plot(middle, mean + sign * spread, color=_COLOURS[1], linewidth=1, label=label)
    axes.set(xlabel=xlabel, ylabel="residual")
    axes.legend()
    return axes


def residual_histogram(frame: Any, *, xlabel: str = "residual", axes: Any = None) -> Any:
    """Draw counts of residuals by bins, with their intervals.

    Parameters
    ----------
    frame
        That of `ResidualTable.histogram_of_residuals`.
    xlabel
        What the bins are of.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> frame = {"low": [-1, 0], "high": [0, 1], "count": [5, 6], "lower": [4, 5], "upper": [6, 7]}
    >>> residual_histogram(frame).get_ylabel()
    'rows'
    """
    axes = _axes(axes)
    low, high = _lines("high", frame["low"], frame["high"])
    _, count = _lines("count", frame["low"], frame["count"])
    axes.bar((low + high) / 2, count, width=high - low, alpha=0.6, zorder=2)
    axes.vlines((low + high) / 2, *_lines("upper", frame["lower"], frame["upper"]), color="black")
    axes.set(xlabel=xlabel, ylabel="rows")
    axes.yaxis.set_major_formatter(_thousands)
    return axes


def normal_plot(frame: Any, *, axes: Any = None) -> Any:
    """Draw residuals over normal quantiles, with bands.

    Parameters
    ----------
    frame
        That of `ResidualTable.normal_plot`.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> frame = {"residual": [-1, 0, 1], "normal": [-1, 0, 1]}
    >>> normal_plot(frame | {"lower": [-1.1, -0.1, 0.9], "upper": [-0.9, 0.1, 1.1]}).get_ylabel()
    'residual'
    """
    axes = _axes(axes)
    normal, residual = _lines("residual", frame["normal"], frame["residual"])
    low, high = _lines("upper", frame["lower"], frame["upper"])
    held = np.isfinite(normal) & np.isfinite(low) & np.isfinite(high)
    (line,) = axes.plot(normal[held], residual[held], "o", markersize=4)
    axes.fill_betweenx(residual[held], low[held], high[held], color=line.get_color(), **_BAND)
    axes.set(xlabel="normal quantile", ylabel="residual")
    return axes


def importance_plot(frame: Any, *, axes: Any = None) -> Any:
    """Draw the importance of features with intervals, the largest first.

    Parameters
    ----------
    frame
        That of `importance`.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> frame = {"feature": ["a", "b"], "importance": [0.1, 0.3]}
    >>> axes = importance_plot(frame | {"lower": [0.05, 0.2], "upper": [0.15, 0.4]})
    >>> [text.get_text() for text in axes.get_yticklabels()]
    ['b', 'a']
    """
    order = np.argsort(-np.asarray(frame["importance"], dtype=np.float64), kind="stable")
    named = [str(list(frame["feature"])[place]) for place in order]
    columns = [
        np.asarray(frame[name], dtype=np.float64)[order]
        for name in ("importance", "lower", "upper")
    ]
    axes = errors(named, *columns, bars=True, axes=axes)
    axes.set(xlabel="loss more without the feature")
    return axes


def validation_plot(frame: Any, *, parameter: str, axes: Any = None) -> Any:
    """Draw scores of candidates over one parameter, with intervals.

    Parameters
    ----------
    frame
        That of `ValidationCurve.frame`.
    parameter
        The column of the parameter.
    axes
        The axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        With the picture.

    Raises
    ------
    InvalidParameter
        For values that are not numbers, and for arrays whose lengths do not fit.
    MissingExtra
        Without matplotlib.

    Examples
    --------
    >>> frame = {"penalty": [0.1, 1], "score": [0.8, 0.7], "lower": [0.7, 0.6], "upper": [0.9, 0.8]}
    >>> validation_plot(frame, parameter="penalty").get_xlabel()
    'penalty'
    """
    axes = _axes(axes)
    places = list(frame[parameter])
    score, low = _lines("lower", frame["score"], frame["lower"])
    _, high = _lines("upper", frame["score"], frame["upper"])
    axes.errorbar(range(len(places)), score, yerr=[score - low, high - score], fmt="o", capsize=3)
    axes.set_xticks(range(len(places)), [str(place) for place in places])
    axes.set(xlabel=parameter, ylabel="score")
    return axes


def new_axes(*, size: tuple[float, float] = (6, 4), dpi: float = 150) -> Any:
    """Make the axes of a new figure, for the `axes=` of every function here.

    Parameters
    ----------
    size
        Width and height in inches.
    dpi
        Dots per inch, for raster formats such as PNG.

    Returns
    -------
    matplotlib.axes.Axes
        Empty, in a figure of its own.

    Raises
    ------
    MissingExtra
        Without matplotlib.

    Examples
    --------
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


def _bands(
    axes: Any, argument: str, frames: Mapping[str, Any], x: str, y: str, **style: Any
) -> None:
    """Lines of frames by name, with bands between their columns `lower` and `upper`."""
    for name, frame in _named(argument, frames):
        at, value = _lines(name, frame[x], frame[y])
        low, high = _lines(name, frame["lower"], frame["upper"])
        (line,) = axes.plot(at, value, label=name, markersize=4, **{**_EDGE, **style})
        axes.fill_between(at, low, high, color=line.get_color(), **_BAND)


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
            raise InvalidParameter(name, len(given), expected=f"{x.size} of them, one per value")
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
