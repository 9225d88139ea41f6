"""Selection: which of many candidates is best, by noisy maxima of several kinds."""

# SPDX-License-Identifier: Apache-2.0
