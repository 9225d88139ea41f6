"""Answers over time: who is bound while rows still come, which noise, and what it costs.

No table and no engine is known here. `bounds` has the contribution bounds of a person,
`sensitivity` how far these move a series, `encoders` the choice of the noise with the least error,
and `noise` the release of one step, exactly.
"""

# SPDX-License-Identifier: Apache-2.0
