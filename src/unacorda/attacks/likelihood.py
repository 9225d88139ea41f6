r"""Likelihood-ratio attacks: whether a classifier was trained on an example."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unacorda.attacks.attack import Attack
from unacorda.audit.arguments import floats, truths
from unacorda.errors import InvalidParameter

Floats = NDArray[np.float64]


def logit_confidence(probabilities: ArrayLike) -> Floats:
    """Compute ln(p / (1 - p)) of a model's probability for the right label.

    It is nearly normal over models. Probabilities are clamped to [1e-12, 1 - 1e-12].

    Parameters
    ----------
    probabilities
        An array of numbers from 0 to 1.

    Returns
    -------
    array of float
        Of the same shape.

    Raises
    ------
    InvalidParameter
        For a value that is not a probability.

    Examples
    --------
    >>> logit_confidence([0.5, 1.0]).round(2).tolist()
    [0.0, 27.63]
    """
    given = floats("probabilities", probabilities)
    if not ((given >= 0) & (given <= 1)).all():  # NaN fails too
        raise InvalidParameter("probabilities", "other numbers", expected="numbers from 0 to 1")
    p = np.clip(given, 1e-12, 1 - 1e-12)
    found: Floats = np.log(p) - np.log1p(-p)
    return found


def likelihood_ratio(
    shadows: ArrayLike, trained_on: ArrayLike, observed: ArrayLike, *, truth: ArrayLike
) -> Attack:
    r"""Score examples by the likelihood ratio of the observed confidence with and without them.

    Spreads are pooled over examples, since few shadow models determine a single one badly.

    Statement: score = ln N(observed; m, s^2) with the example's mean m and the common spread s of
    models trained on it, minus the same for models not trained on it.

    Source: Carlini et al. 2022, arXiv:2112.03570 (LiRA, with a global variance).

    Parameters
    ----------
    shadows
        Models x examples: logit-scaled confidences (`logit_confidence`) of shadow models on the
        right labels.
    trained_on
        The same shape: whether a shadow model was trained on an example. Each example needs a
        shadow model of each kind.
    observed
        One confidence an example, of the model under attack.
    truth
        Whether that model was trained on it, one boolean an example.

    Returns
    -------
    Attack
        With a score for each example.

    Raises
    ------
    InvalidParameter
        For shapes that do not fit, confidences that are not finite, examples without shadow models
        of both kinds, and a truth that is the same for all.

    Examples
    --------
    >>> drawn = np.random.default_rng(1)
    >>> inside = drawn.random((32, 300)) < 0.5
    >>> truth = drawn.random(300) < 0.5
    >>> shadows = 3 * inside + drawn.normal(size=(32, 300))
    >>> attack = likelihood_ratio(shadows, inside, 3 * truth + drawn.normal(size=300), truth=truth)
    >>> attack.auc > 0.95
    True
    """
    values, inside = floats("shadows", shadows), truths("trained_on", trained_on)
    seen, members = floats("observed", observed), truths("truth", truth)
    if values.ndim != 2 or inside.shape != values.shape:
        raise InvalidParameter(
            "trained_on",
            f"an array of shape {inside.shape}",
            expected=f"the shape of the shadows' confidences, {values.shape}",
        )
    if seen.shape != values.shape[1:] or members.shape != seen.shape:
        raise InvalidParameter(
            "observed",
            f"arrays of shapes {seen.shape} and {members.shape}",
            expected=f"one number and one truth for each of {values.shape[1]} examples",
        )
    if not (np.isfinite(values).all() and np.isfinite(seen).all()):
        expected = "finite confidences, as logit_confidence makes them"
        raise InvalidParameter("shadows", "NaN or infinite confidences", expected=expected)
    if not (inside.any(axis=0) & ~inside.all(axis=0)).all():
        raise InvalidParameter(
            "trained_on", "an example of one kind", expected="shadow models with and without each"
        )
    scores = _log_density(values, inside, seen) - _log_density(values, ~inside, seen)
    return Attack(scores=scores, truth=members)


def _log_density(values: Floats, chosen: NDArray[np.bool_], seen: Floats) -> Floats:
    """Of a normal law with each example's own mean and a common spread; constants left out."""
    mean = np.sum(values, axis=0, where=chosen) / chosen.sum(axis=0)
    freedom = max(1, int(chosen.sum()) - mean.size)
    spread = np.sqrt(np.sum((values - mean) ** 2, where=chosen) / freedom)
    spread = max(float(spread), 1e-9)
    found: Floats = -(((seen - mean) / spread) ** 2) / 2 - np.log(spread)
    return found
