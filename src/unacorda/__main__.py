"""`python -m unacorda` is the command `unacorda`."""

# SPDX-License-Identifier: Apache-2.0

import sys

from unacorda.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
