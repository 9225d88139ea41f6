"""unacorda's side of the accounting benchmark: the public accountant and calibrator."""

# SPDX-License-Identifier: Apache-2.0

from typing import Literal

from accounting_protocol import Answer, Case, Part, only_sampled_gaussian, serve

import unacorda
from unacorda import events
from unacorda.accounting import calibrate, epsilon_interval


def event_of(part: Part) -> events.Event:
    match part["kind"]:
        case "gaussian":
            event = events.Gaussian(noise_multiplier=part["noise"])
        case "laplace":
            event = events.Laplace(noise_multiplier=part["noise"])
        case "pure":
            event = events.Pure(epsilon=part["epsilon"])
        case "approximate":
            event = events.Approximate(epsilon=part["epsilon"], delta=part["delta"])
        case _:
            step = events.Gaussian(noise_multiplier=part["noise"])
            event = step.poisson_sampled(rate=part["rate"])
    return event * part["count"]


def ask(case: Case) -> Answer:
    if "epsilon" in case:
        return {"upper": least_noise(case)}
    composed = map(event_of, case["parts"])
    lower, upper = epsilon_interval(composed, delta=case["delta"])
    return {"lower": lower, "upper": upper}


def least_noise(case: Case) -> float:
    part = only_sampled_gaussian(case)
    return calibrate(
        lambda noise: event_of({**part, "noise": noise}),
        target=unacorda.ApproxDP(case["epsilon"], case["delta"]),
    )


def directions(case: Case) -> Answer:
    """The upper end for each direction alone, from the engine behind the accountant."""
    from unacorda.accounting.contour.engine import epsilon_of
    from unacorda.accounting.contour.parts import flatten
    from unacorda.checks import exact

    if "epsilon" in case or {part["kind"] for part in case["parts"]} == {"approximate"}:
        return {}
    composed = [(event_of({**part, "count": 1}), part["count"]) for part in case["parts"]]
    ways: tuple[Literal["remove", "add"], ...] = ("remove", "add")
    return {
        way: epsilon_of(flatten(composed), exact("delta", case["delta"]), directions=way).upper
        for way in ways
    }


if __name__ == "__main__":
    serve(ask, directions=directions)
