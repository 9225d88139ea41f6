"""Late flights by a small network: each flight protected, or each aircraft with all of its flights.

    python examples/private_flights.py [--picture private_flights.svg] [--quick]

Will a flight arrive 15 minutes late or more? The data are public (flights from New York in 2013,
bundled with the package); an aircraft stands for a person, with up to 575 flights. A network reads
airline, airports, day and hour, each by an embedding over a public list: those of the timetable and
of the calendar, none made from rows that train. It is trained for epsilon 8, 3 and 1, first with
each flight a unit (delta 1e-6), then with each aircraft (delta 1e-5), of which a step takes at most
8 flights. The table shows areas under the ROC curve next to that of training without privacy. They
are measured on the flights of 500 other aircraft, which are taken as public here.
A last run at epsilon 8 carries 1000 canaries, whose coins are guessed afterwards: the lower bound
that follows is no higher than what was promised, unless the library is wrong or luck is bad.
Takes some three minutes on one core; --quick shows epsilon 8 alone, after a tenth of the steps.
Needs `pip install 'unacorda[learning,plots]' scikit-learn`.
"""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import argparse
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from unacorda import ApproxDP, learning

LISTS = {
    "carrier": "9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV",
    "origin": "EWR JFK LGA",
    "dest": """
ABQ ACK ALB ANC ATL AUS AVL BDL BGR BHM BNA BOS BQN BTV BUF BUR BWI BZN CAE CAK CHO CHS CLE CLT CMH
CRW CVG DAY DCA DEN DFW DSM DTW EGE EYW FLL GRR GSO GSP HDN HNL HOU IAD IAH ILM IND JAC JAX LAS LAX
LEX LGA LGB MCI MCO MDW MEM MHT MIA MKE MSN MSP MSY MTJ MVY MYR OAK OKC OMA ORD ORF PBI PDX PHL PHX
PIT PSE PSP PVD PWM RDU RIC ROC RSW SAN SAT SAV SBN SDF SEA SFO SJC SJU SLC SMF SNA SRQ STL STT SYR
TPA TUL TVC TYS XNA
""",
}
SIZES = [*(len(each.split()) for each in LISTS.values()), 12 * 31, 24]

# What is public of each way: units by a round number, and settings tried on the judging flights.
FLIGHT = {"units": 287_000, "rate": 0.05, "steps": 250, "clip": 0.1, "delta": 1e-6}
AIRCRAFT = {"units": 3500, "rate": 0.25, "steps": 120, "clip": 0.15, "delta": 1e-5}
CANARIES = 1000


def flights() -> tuple[Any, Any]:
    """Features, labels and aircraft of flights to train on, and of others to judge by."""
    with resources.as_file(resources.files("unacorda.cli") / "data" / "flights.parquet") as path:
        columns = duckdb.sql(
            "SELECT carrier, origin, dest, 31 * (month - 1) + day - 1 AS day, hour, tailnum, "
            f"arr_delay >= 15 AS late FROM '{path}' "
            "WHERE arr_delay IS NOT NULL AND tailnum IS NOT NULL"
        ).fetchnumpy()
    places = [
        np.array(list(map(each.split().index, columns[name]))) for name, each in LISTS.items()
    ]
    x = torch.tensor(np.stack([*places, columns["day"], columns["hour"]], axis=1))
    everything = x, torch.tensor(columns["late"]).float(), columns["tailnum"].astype(str)
    held_out = np.random.default_rng(0).permutation(np.unique(everything[2]))[:500]
    judging = np.isin(everything[2], held_out)
    return tuple(each[~judging] for each in everything), tuple(each[judging] for each in everything)


class Network(torch.nn.Module):
    """Five embeddings, small at first, and three layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = torch.nn.ModuleList(torch.nn.Embedding(size, 8) for size in SIZES)
        for each in self.embeddings:
            torch.nn.init.normal_(each.weight, std=0.1)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8 * len(SIZES), 32),
            torch.nn.ReLU(),
            torch.nn.Linear(32, 32),
            torch.nn.ReLU(),
            torch.nn.Linear(32, 1),
        )

    def forward(self, x: Any) -> Any:
        """One number a flight, above 0 where it is likely late."""
        given = [each(x[:, i]) for i, each in enumerate(self.embeddings)]
        return self.layers(torch.cat(given, dim=1))[:, 0]


def losses(given: Any, late: Any) -> Any:
    """One number a flight."""
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
    return cross_entropy(given, late, reduction="none")


def area(model: Any, judging: Any) -> float:
    """The area under the ROC curve."""
    with torch.no_grad():
        return float(roc_auc_score(judging[1], model(judging[0])))


def without_privacy(data: Any, *, epochs: int) -> Any:
    """A network trained as usual."""
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for rows in torch.randperm(len(data[1])).split(1024):
            optimizer.zero_grad()
            losses(model(data[0][rows]), data[1][rows]).mean().backward()
            optimizer.step()
    return model


def privately(
    data: Any, way: dict[str, Any], epsilon: float, *, part: float = 1, canaries: int = 0
) -> tuple[Any, Any]:
    """A network trained privately, with the moving average of its weights, and its training."""
    model = Network()
    units, by_aircraft = way["units"] + canaries, way is AIRCRAFT
    training = learning.PrivateTraining(
        model,
        torch.optim.Adam(model.parameters(), lr=0.03),
        data[:2],
        budget=ApproxDP(epsilon, way["delta"]),
        units=units,
        batch_size=round(way["rate"] * units),
        steps=round(part * way["steps"]),
        clip=way["clip"],
        unit=data[2] if by_aircraft else None,
        rows=8 if by_aircraft else None,
        average=0.95,
        physical=8192,
        canaries=learning.scattered(model, count=canaries, norm=way["clip"]) if canaries else None,
    )
    for x, y in training:
        training.step(losses(model(x), y))
    training.close()
    model.load_state_dict(training.averaged)
    return model, training


def main() -> None:
    """Train, print plans and the table, audit, draw."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--picture", type=Path, default=Path("private_flights.svg"))
    ask.add_argument("--quick", action="store_true", help="epsilon 8 alone, a tenth of the steps")
    options = ask.parse_args()
    epsilons, part = ((8.0,), 0.1) if options.quick else ((8.0, 3.0, 1.0), 1)
    data, judging = flights()

    best = area(without_privacy(data, epochs=1 if options.quick else 12), judging)
    shown: dict[str, list[float]] = {}
    for name, way in (("flight", FLIGHT), ("aircraft", AIRCRAFT)):
        shown[name] = []
        for epsilon in epsilons:
            model, training = privately(data, way, epsilon, part=part)
            shown[name].append(area(model, judging))
        print(training.plan, end="\n\n")

    print(f"{'area under the curve':<22}" + "".join(f"{e:>12}" for e in shown))
    print(f"{'no privacy':<22}{best:>12.3f}{best:>12.3f}")
    for epsilon, *areas in zip(epsilons, *shown.values(), strict=True):
        print(f"epsilon {epsilon:<14g}" + "".join(f"{each:>12.3f}" for each in areas))

    found = privately(data, AIRCRAFT, 8, part=part, canaries=CANARIES)[1].audit()
    print(
        f"\nOne run shows an epsilon of {found.found:.2f} at least; promised: {found.promised:.2f}"
    )
    draw(epsilons, best, shown, options.picture)


def draw(
    epsilons: tuple[float, ...], best: float, shown: dict[str, list[float]], path: Path
) -> None:
    """Areas by epsilon, below that without privacy."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5, 3.5), layout="constrained")
    axes = figure.add_subplot()
    axes.axhline(best, color="0.4", linestyle="--", label="no privacy")
    for (name, areas), marker in zip(shown.items(), "os", strict=True):
        axes.plot(epsilons, areas, marker=marker, label=f"each {name} is protected")
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{each:g}" for each in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("epsilon")
    axes.set_ylabel("area under the ROC curve")
    axes.legend()
    figure.savefig(path)
    print(f"A picture is in {path}.")


if __name__ == "__main__":
    main()
