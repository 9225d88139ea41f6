"""Tables about people to releases: plans, sensitivities, engines, sessions."""

# SPDX-License-Identifier: Apache-2.0
