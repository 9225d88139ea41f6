# SPDX-License-Identifier: Apache-2.0

# The names that the package shows.

from unacorda.ledger.export import export_account as export_account
from unacorda.ledger.export import verify_export as verify_export
from unacorda.ledger.ledger import open_ledger as open_ledger
from unacorda.ledger.pricing import odometer as odometer
from unacorda.ledger.pricing import reprice as reprice
