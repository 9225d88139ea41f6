"""The command `unacorda`, also as `python -m unacorda`."""

# SPDX-License-Identifier: Apache-2.0

import os
import signal
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line; an interrupt while it is loaded is answered too."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _unloaded)
    from unacorda.cli.app import main as run

    code = run()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt but the exit
    return code


def _unloaded(*_: object) -> None:
    os.write(2, b"note: Interrupted. Nothing was charged.\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
