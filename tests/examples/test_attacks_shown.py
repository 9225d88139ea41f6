"""The examples of attacks run, and the attacks find what they are said to find."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

import pytest
from tests.examples.running import lines_of, names_of

from unacorda import SeededBits


def run(name: str, tmp_path: Path) -> list[str]:
    picture = tmp_path / "picture.svg"
    lines = lines_of(f"attacks/{name}.py", "--picture", str(picture))
    assert lines[-1] == f"drawn: {picture}"
    assert picture.read_text().rstrip().endswith("</svg>")
    return lines


@pytest.mark.slow
@pytest.mark.parametrize("name", ["genomes", "ratings", "reconstruction"])
def test_they_run_whole(name: str, tmp_path: Path) -> None:
    assert len(run(name, tmp_path)) >= 4


@pytest.mark.slow
def test_two_people_of_the_office_are_found_out(tmp_path: Path) -> None:
    lines = run("differencing", tmp_path)
    assert lines[0].startswith("Dov earns 120: 120 by sums; noisy: ")
    assert names_of("attacks/differencing.py")["exposed"]()[0].person == 3


@pytest.mark.slow
def test_columns_are_found_without_noise_and_not_with_much() -> None:
    example = names_of("attacks/reconstruction.py")
    assert example["share_right"](100_000, bits=SeededBits(1)) == 1.0
    assert example["share_right"](1, bits=SeededBits(1)) < 0.65


@pytest.mark.long
def test_few_films_are_enough() -> None:
    example = names_of("attacks/ratings.py")
    assert example["share_found"](6, 0.0) >= 0.95
    assert example["share_found"](2, 6.0) <= 0.1


@pytest.mark.long
def test_noise_hides_who_was_in_the_study() -> None:
    example = names_of("attacks/genomes.py")
    found = example["attacks"](bits=SeededBits(1))
    assert found["10,000 markers"].auc > 0.99
    assert found["10,000 markers"].bound.epsilon > 2
    defended = found["10,000, with noise"]
    assert defended.auc < 0.65
    assert defended.bound.epsilon <= defended.promised
