"""Where the counting is done: sources, and the engine behind one protocol."""

# SPDX-License-Identifier: Apache-2.0
