"""Pictures: values in, axes out. Nothing is computed here, and nothing private is asked for.

Every function draws on the axes it is given, or on new ones, and returns them; save the picture
with ``axes.figure.savefig(path)``. Needs `pip install 'tacet[plots]'`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacet.errors import InvalidParameter
from tacet.extras import require

__all__ = [
    "amplification",
    "budget",
    "coverage",
    "errors",
    "profile",
    "roc",
    "tradeoff",
    "weights_of_loss",
]

Floats = NDArray[np.float64]

_BAND: Final = {"alpha": 0.25, "linewidth": 0}
_FAINT: Final = {"color": "0.6", "linewidth": 0.8}


def tradeoff(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    audited: tuple[ArrayLike, ArrayLike] | None = None,
    axes: Any = None,
) -> Any:
    """Trade-off curves: by name the false-alarm rates and the miss rates at these.

    audited: rates (alpha, beta) of a test that was really made, as an audit bounds them from
    above: a promise whose curve runs above that place is refuted.

    >>> grid = np.linspace(0, 1, 11)
    >>> axes = tradeoff({"chance": (grid, 1 - grid)})
    >>> axes.get_xlabel()
    'false alarms'
    """
    axes = _axes(axes)
    axes.plot([0, 1], [1, 0], linestyle="--", **_FAINT)
    for name, (alpha, beta) in curves.items():
        axes.plot(*_lines(name, alpha, beta), label=name)
    if audited is not None:
        axes.plot(*_lines("audited", *audited), "kx", label="audited")
    axes.set(xlabel="false alarms", ylabel="misses", xlim=(0, 1), ylim=(0, 1))
    axes.legend()
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
    for name, (epsilon, lower, upper) in curves.items():
        x, low = _lines(name, epsilon, lower)
        _, high = _lines(name, epsilon, upper)
        (line,) = axes.plot(x, high, label=name)
        axes.fill_between(x, low, high, color=line.get_color(), **_BAND)
    axes.set(xlabel="epsilon", ylabel="delta", yscale="log")
    axes.legend()
    return axes


def weights_of_loss(losses: ArrayLike, masses: ArrayLike, *, axes: Any = None) -> Any:
    """A privacy loss distribution: its losses and their masses.

    >>> weights_of_loss([-1.0, 1.0], [0.27, 0.73]).get_xlabel()
    'privacy loss'
    """
    axes = _axes(axes)
    x, y = _lines("masses", losses, masses)
    axes.fill_between(x, 0, y, step="mid", alpha=0.5)
    axes.plot(x, y, drawstyle="steps-mid")
    axes.axvline(0, **_FAINT)
    axes.set(xlabel="privacy loss", ylabel="mass")
    axes.set_ylim(bottom=0)
    return axes


def amplification(rates: ArrayLike, ratios: Mapping[str, ArrayLike], *, axes: Any = None) -> Any:
    """When is subsampling free? By name what a sample costs over what no noise of it would save.

    rates: of sampling; ratios: epsilon of the sampled mechanism over rate times epsilon of the
    whole: near 1 a sample costs no more than its share.

    >>> amplification([0.01, 0.1], {"sigma 2": [1.1, 1.5]}).get_xscale()
    'log'
    """
    axes = _axes(axes)
    for name, values in ratios.items():
        axes.plot(*_lines(name, rates, values), marker=".", label=name)
    axes.axhline(1, **_FAINT)
    axes.set(xscale="log", xlabel="sampling rate", ylabel="cost / (rate x cost of the whole)")
    axes.legend()
    return axes


def budget(times: Sequence[Any], spent: ArrayLike, *, limit: float, axes: Any = None) -> Any:
    """What was spent over time, in one currency, and how much there is.

    >>> round(budget([1, 2, 3], [0.1, 0.3, 0.4], limit=1.0).get_ylim()[1], 2).item()
    1.08
    """
    axes = _axes(axes)
    values = np.asarray(spent, dtype=np.float64)
    if len(times) != values.size:
        raise InvalidParameter("spent", values.shape, expected=f"{len(times)} numbers, one a time")
    axes.step(times, values, where="post")
    axes.axhline(limit, color="tab:red", linestyle="--", label="budget")
    axes.set(xlabel="time", ylabel="spent")
    axes.set_ylim(0, 1.08 * max(limit, float(values.max(initial=0.0))))
    axes.legend()
    return axes


def errors(
    names: Sequence[str], values: ArrayLike, half_widths: ArrayLike, *, axes: Any = None
) -> Any:
    """Released values with their intervals, one line a name.

    >>> errors(["a", "b"], [3.0, 4.0], [0.5, 0.2]).get_yticks().tolist()
    [0, 1]
    """
    axes = _axes(axes)
    x, half = _lines("half_widths", values, half_widths)
    if len(names) != x.size:
        raise InvalidParameter("names", len(names), expected=f"{x.size} names, one a value")
    places = np.arange(x.size)
    axes.errorbar(x, places, xerr=half, fmt="o", capsize=3)
    axes.set_yticks(places, list(names))
    axes.invert_yaxis()
    return axes


def coverage(
    sizes: ArrayLike, shares: Mapping[str, ArrayLike], *, nominal: float = 0.95, axes: Any = None
) -> Any:
    """How often intervals held the truth, against the number of people, by name.

    >>> coverage([100, 1000], {"ours": [0.94, 0.95]}).get_xscale()
    'log'
    """
    axes = _axes(axes)
    axes.axhline(nominal, **_FAINT)
    for name, values in shares.items():
        axes.plot(*_lines(name, sizes, values), marker="o", label=name)
    axes.set(xscale="log", xlabel="people", ylabel="coverage")
    axes.legend()
    return axes


def roc(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]], *, least: float = 1e-3, axes: Any = None
) -> Any:
    """Attacks: by name false-positive and true-positive rates, on log axes from `least` on.

    >>> roc({"attack": ([0.0, 0.01, 1.0], [0.2, 0.6, 1.0])}).get_xscale()
    'log'
    """
    axes = _axes(axes)
    chance = np.array([least, 1.0])
    axes.plot(chance, chance, linestyle="--", label="chance", **_FAINT)
    for name, (alarms, hits) in curves.items():
        x, y = _lines(name, alarms, hits)
        axes.plot(np.maximum(x, least), np.maximum(y, least), drawstyle="steps-post", label=name)
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(least, 1),
        ylim=(least, 1),
        xlabel="false-positive rate",
        ylabel="true-positive rate",
    )
    axes.legend()
    return axes


def _axes(axes: Any) -> Any:
    """The axes given, or those of a new figure that is not a window."""
    if axes is not None:
        return axes
    require("matplotlib", extra="plots")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def _lines(name: str, x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape or not first.size:
        raise InvalidParameter(
            name,
            f"arrays of shapes {first.shape} and {second.shape}",
            expected="two lines of numbers of one length",
        )
    return first, second
