"""autodp: Renyi divergences, or its Fourier accountant (AFA), which inverts by fixed quadrature.

The Fourier accountant names no error; a pure guarantee is given to it as randomised response,
which dominates it, and sampled Gaussians in both directions, of which the worse counts. In its
class for sampled Gaussians its characteristic function fails in this version (a missing key), so
they are built from its amplification by sampling. autodp needs SciPy below 1.10: later ones give
its root finder another default, and its epsilons are then negative.
"""

# SPDX-License-Identifier: Apache-2.0

import math
import sys

from accounting_protocol import Answer, Case, Part, UnknownToTheTool, only_sampled_gaussian, serve
from autodp import calibrator_zoo, mechanism_zoo, transformer_zoo


def renyi(part: Part) -> mechanism_zoo.Mechanism:
    match part["kind"]:
        case "gaussian":
            return mechanism_zoo.GaussianMechanism(sigma=part["noise"])
        case "laplace":
            return mechanism_zoo.LaplaceMechanism(b=part["noise"])
        case "pure":
            return mechanism_zoo.PureDP_Mechanism(eps=part["epsilon"])
        case "approximate":
            raise UnknownToTheTool("no composition of events with a delta of their own")
        case _:
            sample = transformer_zoo.AmplificationBySampling(PoissonSampling=True)
            step = mechanism_zoo.GaussianMechanism(sigma=part["noise"])
            return sample(step, part["rate"], improved_bound_flag=True)


def fourier(part: Part, neighboring: str) -> mechanism_zoo.Mechanism:
    match part["kind"]:
        case "gaussian":
            return mechanism_zoo.GaussianMechanism(
                sigma=part["noise"], RDP_off=True, approxDP_off=True, phi_off=False
            )
        case "laplace":
            return mechanism_zoo.LaplaceMechanism(b=part["noise"], RDP_off=True, phi_off=False)
        case "pure":
            truth = 1 / (1 + math.exp(-part["epsilon"]))
            return mechanism_zoo.RandresponseMechanism(p=truth, RDP_off=True, phi_off=False)
        case "approximate":
            raise UnknownToTheTool("no characteristic function with mass at infinity")
        case _:
            sample = transformer_zoo.AmplificationBySampling_pld(
                PoissonSampling=True, neighboring=neighboring
            )
            step = mechanism_zoo.GaussianMechanism(sigma=part["noise"], RDP_off=True, phi_off=False)
            return sample(step, part["rate"])


def ask_rdp(case: Case) -> Answer:
    if "epsilon" in case:
        part = only_sampled_gaussian(case)
        calibrator = calibrator_zoo.generalized_eps_delta_calibrator()
        found = calibrator(
            mechanism_zoo.SubsampleGaussianMechanism,
            case["epsilon"],
            case["delta"],
            [0.5, 10.0],
            params={"prob": part["rate"], "sigma": None, "coeff": part["count"]},
            para_name="sigma",
            name="least",
        )
        return {"upper": float(found.params["sigma"])}
    parts = case["parts"]
    composed = transformer_zoo.Composition()(
        [renyi(part) for part in parts], [part["count"] for part in parts]
    )
    return {"upper": float(composed.get_approxDP(case["delta"]))}


def ask_afa(case: Case) -> Answer:
    if "epsilon" in case:
        raise UnknownToTheTool("its class for the noise search fails on a missing key")
    parts = case["parts"]
    sampled = any(part["kind"] == "sampled_gaussian" for part in parts)
    found = {}
    for direction in ("remove", "add") if sampled else ("remove",):
        composed = transformer_zoo.ComposeAFA()(
            [fourier(part, f"{direction}_only") for part in parts],
            [part["count"] for part in parts],
        )
        found[direction] = float(composed.get_approxDP(case["delta"]))
    return {"upper": max(found.values()), **found}


if __name__ == "__main__":
    serve({"rdp": ask_rdp, "afa": ask_afa}[sys.argv[1]])
