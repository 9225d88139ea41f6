"""Why noise at local sensitivity is not private, by counting: no sampling, no approximation.

    python examples/local_sensitivity.py

Three people have told a whole number each. The median of (1, 2, 2) can move by 1 if one of them
tells something else, that of (2, 2, 2) by 0. Noise of that size looks right, as it always covers
what one person can do to the answer. But the size of the noise is an answer too: with (2, 2, 2)
there is none, so whatever is not 2 tells that the data was something else.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations_with_replacement

from unacorda import ReplaceOne
from unacorda.mechanisms.data_dependent import Median, local_sensitivity, smooth_sensitivity

LOWEST, HIGHEST = 0, 4  # what people may tell
MEDIAN = Median(lower=LOWEST, upper=HIGHEST)
EPSILON = 1.0

Data = tuple[int, ...]
Law = dict[int, float]


def law(centre: int, scale: float) -> Law:
    """The probabilities of centre + k, proportional to exp(-|k| / scale); beyond e^-100 nothing."""
    if scale == 0:
        return {centre: 1.0}
    step = math.exp(-1 / scale)
    reach = math.floor(100 * scale)
    return {centre + k: (1 - step) / (1 + step) * step ** abs(k) for k in range(-reach, reach + 1)}


def excess(one: Law, other: Law, epsilon: float) -> float:
    """The least delta for this epsilon: what one law has beyond e^epsilon times the other."""
    return math.fsum(
        max(0.0, chance - math.exp(epsilon) * other.get(answer, 0.0))
        for answer, chance in one.items()
    )


def worst(scale_of: Callable[[Data], float], epsilon: float) -> tuple[float, Data, Data]:
    """The largest delta of all neighbors among all datasets of three people, and which."""
    told = range(LOWEST, HIGHEST + 1)
    laws = {
        data: law(int(MEDIAN.value(data)), scale_of(data))
        for data in combinations_with_replacement(told, 3)
    }
    return max(
        (excess(laws[one], laws[other], epsilon), one, other)
        for one in laws
        for place in range(3)
        for other in {tuple(sorted((*one[:place], new, *one[place + 1 :]))) for new in told}
    )


def at_local_sensitivity(data: Data) -> float:
    """The scale that looks right and is not."""
    return local_sensitivity(MEDIAN, data, neighbors=ReplaceOne) / EPSILON


def at_global_sensitivity(_: Data) -> float:
    """The scale for the worst data there could be: private, and large."""
    return (HIGHEST - LOWEST) / EPSILON


def report() -> list[str]:
    """What is seen with each scale, line by line."""
    lines = []
    for data in ((1, 2, 2), (2, 2, 2)):
        chances = law(int(MEDIAN.value(data)), at_local_sensitivity(data))
        shown = ", ".join(f"{answer}: {chances.get(answer, 0.0):.3f}" for answer in range(5))
        lines.append(f"noise at local sensitivity, data {data}: {shown}")
    for name, scale_of in (("local", at_local_sensitivity), ("global", at_global_sensitivity)):
        for epsilon in (EPSILON, 10 * EPSILON):
            delta, one, other = worst(scale_of, epsilon)
            where = f", with {one} and {other}" if delta > 1e-12 else ""
            lines.append(
                f"noise at {name} sensitivity, epsilon {epsilon:g}: delta {delta:.3f}{where}"
            )
    lines.append("smooth sensitivity (smoothness 0.3), which neighbors cannot tell apart so well:")
    for data in ((1, 2, 2), (2, 2, 2), (1, 1, 2)):
        smooth = smooth_sensitivity(MEDIAN, data, smoothness=0.3, neighbors=ReplaceOne)
        lines.append(f"  data {data}: {smooth:.3f}")
    lines.append(
        "Noise at a smooth sensitivity has a proof, in unacorda.mechanisms.SmoothSensitivity."
    )
    return lines


def main() -> None:
    """Print the report, the same in every run."""
    print("\n".join(report()))


if __name__ == "__main__":
    main()
