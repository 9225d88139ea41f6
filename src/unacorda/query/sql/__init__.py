"""An analyst's SELECT: select.py reads one, outputs.py arranges what is released."""

# SPDX-License-Identifier: Apache-2.0
