"""What one tool did on one case of `accounting.py`, what is wrong with it, and the tables."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tables import Report

Reference = dict[str, Any]
NARROW = 1e-8


@dataclass(slots=True)
class Record:
    tool: str
    cold: float | None = None
    extra_mib: float | None = None
    answer: dict[str, float] = field(default_factory=dict)
    directions: dict[str, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    spent: float = 0.0
    hint: float | None = None  # seconds of the last call; None where there is nothing to time
    unknown: str = ""
    failure: str = ""

    def note_cold(self, said: dict[str, Any]) -> None:
        if self._failed(said):
            return
        self.cold = self.hint = self.spent = said["seconds"]
        self.answer, self.extra_mib = said["answer"], said["extra_mib"]
        self.directions = {way: self.answer[way] for way in ("remove", "add") if way in self.answer}

    def note_time(self, said: dict[str, Any]) -> None:
        if self._failed(said):
            return
        self.hint = said["seconds"]
        self.seconds.append(said["seconds"])
        self.cpu.append(said["cpu"])
        self.spent += said["seconds"]

    def note_directions(self, said: dict[str, Any]) -> None:
        self.directions = said.get("answer", {})

    def _failed(self, said: dict[str, Any]) -> bool:
        self.unknown, self.failure = said.get("unknown", ""), said.get("failure", "")
        if failed := bool(self.unknown or self.failure):
            self.hint = None
        return failed

    @property
    def times(self) -> list[float]:
        """The rounds; of a tool too slow for a second call, the first one."""
        return self.seconds or ([self.cold] if self.cold is not None else [])

    @property
    def width(self) -> float | None:
        """Relative to the upper end, where the tool gives both ends."""
        if "lower" not in self.answer:
            return None
        lower, upper = self.answer["lower"], self.answer["upper"]
        return (upper - lower) / upper if upper else 0.0

    def distance(self, reference: Reference | None) -> float | None:
        if reference is None or not math.isfinite(self.answer.get("upper", math.nan)):
            return None
        truth = Decimal(reference["answer"])
        return float((Decimal(self.answer["upper"]) - truth) / truth)

    def troubles(self, reference: Reference | None) -> list[str]:
        """What a user must know; nothing where the tool has no word for the case."""
        found = [self.failure] if self.failure else []
        if "upper" not in self.answer:
            return found
        if not all(map(math.isfinite, self.answer.values())):
            said = ", ".join(f"{end} {value}" for end, value in self.answer.items())
            return [*found, f"not finite: {said}"]
        if reference is None:
            return found
        truth = Decimal(reference["answer"])
        slack = truth * Decimal(reference["difference"])
        if Decimal(self.answer["upper"]) < truth - slack:
            short = (truth - Decimal(self.answer["upper"])) / truth
            found.append(f"under-reports: {float(short):.1e} relative below the truth")
        if Decimal(self.answer.get("lower", 0)) > truth + slack:
            found.append("its lower end lies above the truth")
        return found

    def as_json(self, reference: Reference | None) -> dict[str, Any]:
        times = quartiles(self.times)
        return {
            "answer": self.answer,
            "directions": self.directions,
            "width": self.width,
            "from_reference": self.distance(reference),
            "median_s": times[1] if times else None,
            "quartiles_s": [times[0], times[2]] if times else None,
            "seconds": self.seconds,
            "cpu": self.cpu,
            "cold_s": self.cold,
            "extra_mib": self.extra_mib,
            "unknown": self.unknown,
            "troubles": self.troubles(reference),
        }


def quartiles(values: list[float]) -> tuple[float, float, float] | None:
    if not values:
        return None
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def header(said: dict[str, Any]) -> list[str]:
    settings = said["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in said["versions"].items())
    limits = f"{settings['limit']:.0f} s and {settings['memory']:.0f} MiB a call"
    return [f"{said['machine']}; {settings['rounds']} rounds; {limits}; {versions or 'no peers'}."]


def case_table(case: dict[str, Any], records: list[Record], known: Reference | None) -> list[str]:
    what = "noise" if "epsilon" in case else "epsilon"
    lines = ["", f"### {case['name']}: {case['title']}", ""]
    if known is None:
        lines.append("No reference is kept for this question; compute it with `--references`.")
    else:
        ways = ", ".join(f"{way} {one['value'][:16]}" for way, one in known["directions"].items())
        agreement = known["difference"]
        lines.append(f"Reference: {known['answer'][:20]} ({ways}; agrees to {agreement:.0e}).")
    columns = [what, "width", "from reference", "median ms", "quartiles ms", "CPU ms"]
    columns += ["cold ms", "extra MiB", "tool : unacorda"]
    lines += ["", f"| tool | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    ours = next((quartiles(one.times) for one in records if one.tool == "unacorda"), None)
    for record in records:
        times = quartiles(record.times)
        if times is None or record.cold is None or record.extra_mib is None:
            reason = record.failure or f"does not know it: {record.unknown}"
            lines.append(f"| {record.tool} | {reason} |" + "|" * (len(columns) - 1))
            continue
        once = "" if record.seconds else "*"
        ratio = f"{times[1] / ours[1]:.3g}" if ours else "-"
        cells = [
            f"{record.answer['upper']:.10g}",
            shown(record.width),
            shown(record.distance(known), sign="+"),
            f"{milliseconds(times[1])}{once}",
            f"{milliseconds(times[0])} to {milliseconds(times[2])}",
            milliseconds(statistics.median(record.cpu)) if record.cpu else "-",
            milliseconds(record.cold),
            f"{record.extra_mib:.1f}",
            ratio,
        ]
        lines.append(f"| {record.tool} | {' | '.join(cells)} |")
    if any(not record.seconds and record.cold is not None for record in records):
        lines += ["", "\\* the cold call alone: it was too slow for another."]
    if ways := [by_direction(record) for record in records if len(record.directions) > 1]:
        lines += ["", f"By direction: {'; '.join(ways)}."]
    return lines


def by_direction(record: Record) -> str:
    ways = ", ".join(f"{way} {value:.10g}" for way, value in record.directions.items())
    return f"{record.tool} {ways}"


def overview(report: Report, cases: dict[str, Any], tools: list[str]) -> None:
    """A line a case: milliseconds, and in brackets the relative distance from the reference."""
    columns = [("case", ""), ("unacorda ms", ".3g"), ("relative width", ">")]
    columns += [("extra MiB", ".1f"), *((tool, ">") for tool in tools)]
    row = report.table("cases", columns, title="### All cases")
    for name, case in cases.items():
        ours = case["tools"].get("unacorda", {})
        took, peers = ours.get("median_s"), [case["tools"].get(tool) for tool in tools]
        cells = [1000 * took if took else None, shown(ours.get("width")), ours.get("extra_mib")]
        row(name, *cells, *map(_brief, peers))


def _brief(record: dict[str, Any] | None) -> str | None:
    if record is None or record["median_s"] is None:
        return record and ("unknown" if record["unknown"] else record["troubles"][0])
    took = f"{milliseconds(record['median_s'])}{'' if record['seconds'] else '*'} ms"
    away = record["from_reference"]
    return took if away is None else f"{took} ({shown(away, sign='+')})"


def trouble_table(cases: dict[str, Any]) -> list[str]:
    lines = ["", "### What went wrong", "", "| case | tool | trouble |", "|---|---|---|"]
    for name, case in cases.items():
        for tool, record in case["tools"].items():
            lines += [f"| {name} | {tool} | {trouble} |" for trouble in record["troubles"]]
    return lines if len(lines) > 5 else [*lines[:3], "Nothing."]


def box_table(found: list[dict[str, Any]]) -> tuple[list[str], dict[str, Any]]:
    """The shares and times over all draws, and the ten widest of them."""
    seconds = sorted(one["seconds"] for one in found if "seconds" in one)
    widths = [_width(one) for one in found]
    cut = statistics.quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else seconds
    summary = {
        "draws": len(found),
        "failures": sum("seconds" not in one for one in found),
        "infinite": sum(width == math.inf for width in widths),
        "within_1e-8": sum(width <= NARROW for width in widths) / len(found),
        "median_ms": 1000 * statistics.median(seconds) if seconds else None,
        "p95_ms": 1000 * cut[-1] if seconds else None,
        "slowest_ms": 1000 * seconds[-1] if seconds else None,
    }
    lines = ["", f"### {len(found)} random sampled Gaussians", ""]
    lines += ["| what | value |", "|---|---:|"]
    lines += [
        f"| {name.replace('_', ' ')} | {value if isinstance(value, int) else shown(value)} |"
        for name, value in summary.items()
    ]
    lines += ["", "The widest:", "", "| rate | noise | T | delta | upper | width | ms |"]
    lines.append("|" + "---:|" * 7)
    for place in sorted(range(len(found)), key=lambda place: -widths[place])[:10]:
        one = found[place]
        upper = one.get("answer", {}).get("upper", math.nan)
        cells = [f"{one[name]:.4g}" for name in ("rate", "noise", "count", "delta")]
        cells += [f"{upper:.6g}", shown(widths[place])]
        cells.append(milliseconds(one["seconds"]) if "seconds" in one else one["failure"])
        lines.append(f"| {' | '.join(cells)} |")
    return lines, summary


def _width(one: dict[str, Any]) -> float:
    """Relative to the upper end; infinite where there is no finite answer."""
    ends = one.get("answer")
    if not ends or not math.isfinite(ends["upper"]):
        return math.inf
    return (ends["upper"] - ends["lower"]) / ends["upper"] if ends["upper"] else 0.0


def shown(value: float | None, *, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.3g}"


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:.0f}"
