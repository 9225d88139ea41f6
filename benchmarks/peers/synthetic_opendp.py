"""OpenDP: contingency tables of its Polars context, by AIM and by MST, with mbi 1.1."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import importlib.metadata

import numpy as np
import opendp.prelude as dp
import polars as pl
from synthetic_protocol import Method, Question, serve

dp.enable_features("contrib")


def made_by(algorithm: type) -> Method:
    """Rows by one of its algorithms, with its defaults (tables of three columns, 80 MB)."""

    def make(question: Question, codes: np.ndarray) -> np.ndarray:
        frame = pl.LazyFrame({n: codes[:, a] for a, n in enumerate(question.names)})
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(rho=question.rho),
        )
        keys = dict(zip(question.names, (list(range(n)) for n in question.sizes), strict=True))
        table = (
            context.query(rho=question.rho)
            .select(*question.names)
            .contingency_table(keys=keys, algorithm=algorithm())
            .release()
        )
        drawn = table.synthesize().select(question.names).to_numpy()
        return np.nan_to_num(drawn, nan=0.0)

    return make


serve(
    importlib.metadata.version("opendp"), {"AIM": made_by(dp.mbi.AIM), "MST": made_by(dp.mbi.MST)}
)
