"""The references of the Python interface and of the command line, made from the code."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib
import inspect
import re
import shutil
import textwrap
from pathlib import Path
from typing import Any

import click

REFERENCE = Path(__file__).parents[1] / "reference"
ROOMS = {
    "unacorda": "Sessions, queries and budgets",
    "unacorda.accounting": "What compositions cost",
    "unacorda.events": "What mechanisms do, for the accountant",
    "unacorda.mechanisms": "Mechanisms",
    "unacorda.mechanisms.selection": "The best of many candidates",
    "unacorda.mechanisms.sparse_vector": "Questions above a threshold",
    "unacorda.mechanisms.partitions": "Private keys",
    "unacorda.mechanisms.correlated": "Prefix sums, marginals and workloads",
    "unacorda.mechanisms.data_dependent": "Mechanisms that adapt to the data",
    "unacorda.mechanisms.local": "Reports of people themselves",
    "unacorda.mechanisms.shaped": "Noise of other shapes",
    "unacorda.mechanisms.retry": "Private selection among runs",
    "unacorda.mechanisms.contributions": "Clipping and exact sums",
    "unacorda.inference": "Statistics and regressions",
    "unacorda.inference.losses": "Losses of regressions",
    "unacorda.learning": "Training of networks",
    "unacorda.ledger": "Ledgers",
    "unacorda.audit": "Audits",
    "unacorda.attacks": "Attacks",
    "unacorda.plots": "Pictures",
    "unacorda.errors": "Errors",
}
"""Modules whose names are public, and what they are about."""

RETURNED = {
    "unacorda.query.plan.query.Query": (
        "where derive join union explode per_person group_by agg synthesize with_kept "
        "with_max_rows digest to_dict to_json"
    ),
    "unacorda.query.expressions.language.ColumnExpression": "is_in is_null is_not_null between",
    "unacorda.query.results.explanation.Explanation": "affordable standard_error to_dict",
    "unacorda.query.results.explanation.Explanations": "affordable request cost left to_dict",
    "unacorda.query.aggregates.base.Forecast": "",
    "unacorda.query.results.release.Batch": "request charge remaining event to_json",
    "unacorda.query.results.record.Verification": "holds to_dict",
    "unacorda.query.results.description.Description": "costs warning to_dict to_json to_html",
    "unacorda.query.results.description.ColumnLook": "",
    "unacorda.query.row_bounds.SuggestedBounds": "to_dict",
    "unacorda.query.aggregates.row_counts.KeptRows": "sentence to_dict",
    "unacorda.query.sql.outputs.Select": "outputs",
    "unacorda.query.series.stream.Series": "name answered explain answer answer_until answers",
    "unacorda.query.series.answers.SeriesAnswers": "columns to_dicts to_pandas kept plot",
    "unacorda.query.series.answers.SeriesForecast": "",
    "unacorda.query.series.stream.SuggestedSteps": "",
    "unacorda.synthesis.forecast.SynthesisForecast": "expected_error rows_needed",
    "unacorda.synthesis.release.SyntheticTable": (
        "table measured columns sample to_pandas to_polars to_arrow to_json from_json"
    ),
    "unacorda.synthesis.measurements.Measurements": "count proportion mean",
    "unacorda.synthesis.measurements.MeasuredValue": "",
    "unacorda.synthesis.measured_errors.MeasuredErrors": "of to_dicts to_pandas",
    "unacorda.synthesis.model_counts.ModelCounts": "to_dicts to_pandas",
    "unacorda.privacy.estimates.Estimate": "standard_error interval",
    "unacorda.privacy.estimates.Interval": "width",
    "unacorda.privacy.tradeoff.TradeoffCurve": (
        "beta beta_interval true_positive_rate reconstruction advantage bayes_risk"
    ),
    "unacorda.accounting.explanation.EventExplanation": "to_dict",
    "unacorda.accounting.lower_bounds.LeastErrors": "",
    "unacorda.accounting.amplification.sampling.SamplingWorth": "free warning",
    "unacorda.mechanisms.correlated.prefix_sums.PrefixStream": "left stopped add",
    "unacorda.mechanisms.sparse_vector.streams.ThresholdStream": "left stopped ask ask_with_gap",
    "unacorda.mechanisms.sparse_vector.streams.NumericStream": "left stopped ask",
    "unacorda.mechanisms.selection.tree.TreeTrace": "",
    "unacorda.mechanisms.data_dependent.sensitivities.SensitivityCheck": "",
    "unacorda.mechanisms.data_dependent.shifted_inverse.Underestimate": "",
    "unacorda.mechanisms.data_dependent.found_clipping.ClippedSum": "",
    "unacorda.mechanisms.local.frequencies.Frequencies": (
        "privacy_errors sampling_errors standard_errors interval on_simplex"
    ),
    "unacorda.inference.regression.results.Summary": (
        "standard_errors z p_values to_dicts to_pandas"
    ),
    "unacorda.ledger.ledger.Ledger": (
        "datasets account open_account open_sub_account open_sub_accounts sub_accounts splits "
        "change_limit limit spent remaining entries verify durable close"
    ),
    "unacorda.ledger.ledger.SubAccount": "account limit spent remaining durable close",
    "unacorda.ledger.entries.AccountTerms": "",
    "unacorda.ledger.entries.Entry": "closes to_dict",
    "unacorda.ledger.entries.PeopleSplit": "",
    "unacorda.ledger.pricing.Repriced": "",
    "unacorda.ledger.pricing.OdometerReading": "",
    "unacorda.server.remote.RemoteQuery": (
        "where derive explode join union per_person group_by agg"
    ),
    "unacorda.server.remote.RemoteRelease": "rows releases charge to_pandas",
}
"""Classes whose objects calls return, with the members that are for callers."""


def names_of(room: str) -> list[str]:
    """The public names of a module that are no modules themselves."""
    module = importlib.import_module(room)
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            name
            for name, found in vars(module).items()
            if not name.startswith("_") and getattr(found, "__module__", "") == room
        ]
    return sorted(
        (name for name in names if not inspect.ismodule(getattr(module, name))), key=str.casefold
    )


def write_python() -> None:
    """A page for each module, whose names have a page each; what has two names has one."""
    folder = REFERENCE / "python"
    shutil.rmtree(folder, ignore_errors=True)  # names that are gone
    (folder / "returned").mkdir(parents=True)
    seen: set[int] = set()
    for room, about in ROOMS.items():
        module = importlib.import_module(room)
        names = [name for name in names_of(room) if id(getattr(module, name)) not in seen]
        seen.update(id(getattr(module, name)) for name in names)
        title = f"{about} (`{room}`)"
        lines = [title.replace("`", "``"), "=" * (len(title) + 2), ""]
        lines += [f".. currentmodule:: {room}", "", ".. autosummary::", "   :toctree: names", ""]
        lines += [f"   {name}" for name in names]
        _write(folder / f"{room}.rst", "\n".join(lines) + "\n")
    _write_returned(folder)


def _write_returned(folder: Path) -> None:
    """A page for each class whose objects calls return."""
    about = "What calls return"
    lines = [
        about,
        "=" * len(about),
        "",
        "Objects that calls return, and that are not made by hand.",
    ]
    lines += ["", ".. toctree::", "   :maxdepth: 1", ""]
    for path, members in RETURNED.items():
        module, _, name = path.rpartition(".")
        page = [name, "=" * len(name), "", f".. currentmodule:: {module}", ""]
        page += [f".. autoclass:: {name}()"] + [
            f"   :members: {', '.join(members.split())}"
        ] * bool(members)
        _write(folder / "returned" / f"{name}.rst", "\n".join(page) + "\n")
        lines.append(f"   returned/{name}")
    _write(folder / "returned.rst", "\n".join(lines) + "\n")


def write_commands() -> None:
    """A page for each verb with its arguments and options, as `--help` says them."""
    from unacorda.cli.app import app

    folder = REFERENCE / "commands"
    shutil.rmtree(folder, ignore_errors=True)  # verbs that are gone
    folder.mkdir(parents=True)
    pages: dict[str, list[str]] = {}
    for path, one in _commands(app, ("unacorda",)):
        lines = pages.setdefault(path[1], [f"# Options of unacorda {path[1]}", ""])
        text = EXAMPLES.sub(_as_block, (one.help or one.short_help or "").replace("\b", "").strip())
        lines += [f"## {' '.join(path)}", "", text, "", *_options(one)]
    for verb, lines in pages.items():
        _write(folder / f"{verb}.md", "\n".join(lines) + "\n")
    lines = [
        "# Commands and options",
        "",
        "What `unacorda COMMAND --help` prints. [The command line](../cli.md) shows how to use it.",
        "",
        *("```{toctree}", ":maxdepth: 1", "", *(f"commands/{verb}" for verb in pages), "```"),
    ]
    _write(REFERENCE / "commands.md", "\n".join(lines) + "\n")


EXAMPLES = re.compile(r"^Examples?:\n((?: +\S.*\n?)+)", re.MULTILINE)


def _as_block(found: re.Match[str]) -> str:
    """Examples as a block of a shell."""
    return f"```sh\n{textwrap.dedent(found[1]).rstrip()}\n```\n"


def _commands(command: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    if not isinstance(command, click.Group):
        return [(path, command)]
    context = click.Context(command)
    return [
        found
        for name in command.list_commands(context)
        for found in _commands(command.get_command(context, name), (*path, name))
    ]


def _options(command: click.Command) -> list[str]:
    rows = []
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            rows.append((f"`{parameter.human_readable_name}`", ""))
        elif isinstance(parameter, click.Option) and not parameter.hidden:
            names = ", ".join([*parameter.opts, *parameter.secondary_opts])
            words = (parameter.help or "").replace("|", "\\|").replace("\n", " ")
            rows.append((f"`{names}`", words))
    if not rows:
        return []
    return ["| | |", "|---|---|", *(f"| {name} | {words} |" for name, words in rows), ""]


def _write(page: Path, text: str) -> None:
    if not page.exists() or page.read_text() != text:
        page.write_text(text)


SIGNS = re.compile(r"(`[^`]*`)|(\\|\*|\||(?<=\w)_(?!\w))")


def escape(*arguments: Any) -> None:
    """Escape what docstrings write as it is, and reStructuredText would read as markup."""
    lines: list[str] = arguments[-1]
    example = False
    for place, line in enumerate(lines):
        bare = line.strip()
        example = bare.startswith(">>>") or (example and bool(bare))
        if not example:
            lines[place] = SIGNS.sub(lambda one: one[1] or "\\" + one[2], line)


def skip(*arguments: Any) -> bool | None:
    """Leave out what other packages put into our classes."""
    _, _, name, found, _, _ = arguments
    home = str(getattr(found, "__module__", ""))
    return True if home.startswith("sklearn.") or name in _ROUTING else None


_ROUTING = {"set_score_request", "set_fit_request", "set_predict_request", "set_transform_request"}
"""Methods that scikit-learn makes."""


def _find(app: Any) -> None:
    app.env.find_files(app.config, app.builder)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""

    def write(*_: object) -> None:
        write_python()
        write_commands()

    app.connect("config-inited", write, priority=100)
    # Before autosummary looks for pages: an earlier build does not know those just written.
    app.connect("builder-inited", _find, priority=100)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", escape, priority=100)
    return {"parallel_read_safe": True}
