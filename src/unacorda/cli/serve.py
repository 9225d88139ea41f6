"""`unacorda serve`: a server for many analysts."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from pathlib import Path

import click

from unacorda.cli import params, render


@params.verb("serve")
@click.argument("file", metavar="FILE", type=params.FILE)
def serve(*, file: Path) -> None:
    """Serve datasets to analysts over HTTP, each within a limit of their own.

    FILE is a configuration in TOML (docs/reference/configuration.md); `unacorda server example
    demo` writes one that runs. It needs the extra `server`. It ends at SIGTERM, after running
    questions have ended.

    Example:
      unacorda serve demo/server.toml
    """
    from unacorda.server.config import read_config
    from unacorda.server.run import serve as run

    config = read_config(file)
    render.notice(f"serving {', '.join(config.datasets)} at {config.public_url}")
    run(config)
