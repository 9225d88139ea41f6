"""An analyst's SELECT: select.py reads one, postprocess.py arranges what is released."""

# SPDX-License-Identifier: Apache-2.0
