"""Privacy profiles: delta as a function of epsilon for one pair, certified from both sides."""

# SPDX-License-Identifier: Apache-2.0
