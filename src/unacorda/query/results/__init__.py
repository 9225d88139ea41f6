"""What leaves: releases, batches, explanations, records."""

# SPDX-License-Identifier: Apache-2.0
