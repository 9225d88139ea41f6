"""The example of clipped gradients runs, and what it says of them is so."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.examples.running import names_of

from unacorda import SeededBits


@pytest.mark.slow
@pytest.mark.statistical
def test_small_clips_bend_the_slopes_and_weights_do_not(tmp_path: Path) -> None:
    example = names_of("clipping.py")
    x, y = example["people"](20_000, np.random.default_rng(2))
    clipped = example["by_clips"](x, y, bits=SeededBits(2))
    weighted, intervals = example["by_weights"](x, y, bits=SeededBits(3))
    truth = example["TRUTH"]
    assert clipped[1, 1] > 2  # a clip of 1/4 makes a slope of 1 more than 2
    assert abs(clipped[5, 1] - 1) < 0.3
    # 99.9999 % intervals are 2.5 times as wide as those of 95 %.
    half = (intervals[:, 1] - intervals[:, 0]) / 2
    assert (np.abs(weighted - truth) < 2.5 * half).all()
    path = tmp_path / "clipping.svg"
    figure = example["picture"](clipped, weighted, intervals, path)
    assert path.stat().st_size > 1000
    assert np.allclose(figure.axes[0].lines[1].get_ydata(), clipped[:, 1])
