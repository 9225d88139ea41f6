"""unacorda: synthetic tables from arrays, as the peers', and what the fit alone is given."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import numpy as np
from synthetic_protocol import Question, serve

import unacorda
from unacorda.synthesis.domain import CategoryColumn, Domain
from unacorda.synthesis.plan import SynthesisPlan
from unacorda.synthesis.release import synthesize
from unacorda.synthesis.tables import CodedRows


def default(question: Question, codes: np.ndarray) -> np.ndarray:
    """As it comes; the measured tables are kept for tools that fit alone."""
    columns = tuple(
        CategoryColumn(name=name, values=tuple(range(size)), other=None)
        for name, size in zip(question.names, question.sizes, strict=True)
    )
    made = synthesize(
        CodedRows(codes, sizes=question.sizes),
        SynthesisPlan(domain=Domain(columns=columns), report=0),
        budget=unacorda.ZCDP(question.rho),
        rows_per_unit=1,
        neighbors=unacorda.AddRemove,
    )
    tables = {
        "-".join(map(str, held)): np.append(seen.counts.ravel(), seen.variance)
        for held, seen in made.marginals.items()
    }
    np.savez(question.tables, rows=made.row_count, **tables)
    return made.codes


serve(unacorda.__version__, {"default": default})
