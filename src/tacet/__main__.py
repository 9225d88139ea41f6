"""`python -m tacet` is the command `tacet`."""

# SPDX-License-Identifier: Apache-2.0

import sys

from tacet.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
