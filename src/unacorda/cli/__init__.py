"""The command line: app.py holds `unacorda`, and each verb has a file of its own."""

# SPDX-License-Identifier: Apache-2.0
