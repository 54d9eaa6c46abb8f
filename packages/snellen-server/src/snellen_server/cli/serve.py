"""`snellen serve`"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from snellen.plugin_api import MissingExtraError

DEMO: Mapping[str, Any] = {
    "models": [{"name": "tiny", "model": "snellen:tiny"}, {"name": "tiny-xs", "model": "snellen:tiny-xs"}],
    "examples": ["eyechart/colour"],
    "examples_each": 8,
}
DEMO_PACKAGES = ("torch", "transformers")


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--host", default="127.0.0.1", help="Address to listen on.  [127.0.0.1]")
@click.option("--port", default=7879, type=click.IntRange(0, 65535), help="Port, 0 for a free one.  [7879]")
@click.option("--database", metavar="URL", help="postgresql://USER@HOST/NAME instead of SQLite in DIR.")
@click.option("--config", "file", type=click.Path(path_type=Path, dir_okay=False), help="A TOML file (docs/server.md).")
@click.option(
    "--arena", "arena", metavar="demo|FILE", help="Models of the arena: the two that ship with Snellen, or a TOML file."
)
@click.option("--admin", "invites", is_flag=True, help="Print a link by which one person becomes an administrator.")
def command(
    folder: Path, host: str, port: int, database: str | None, file: Path | None, arena: str | None, invites: bool
) -> None:
    """Serve accounts and all installed features to many, from the folder DIR, which is made at the first start.

    Ctrl-C or SIGTERM stops it after what is under way. Before it is open to others it needs a proxy with TLS in front
    (deploy/ has one) and `public_url` and `trusted_proxies` in the file of --config.
    """
    from snellen.plugin_api import listen
    from snellen_server.hosting import accounts
    from snellen_server.hosting.account_pages import invitation_address
    from snellen_server.hosting.application import HostingServer
    from snellen_server.hosting.configuration import load_configuration
    from snellen_server.hosting.logs import log_to_stderr
    from snellen_server.hosting.services import open_services

    overrides = {"database": database} if database else {}
    configuration = load_configuration(folder, file, **overrides)
    if arena is not None:
        configuration = replace(configuration, feature={**configuration.feature, "arena": arena_of_flag(arena)})
    listener = listen(port, host)
    port = listener.getsockname()[1]
    configuration = configuration.at_port(port)
    services = open_services(configuration)
    if invites or not services.database.read_now(accounts.has_admin):
        token = services.database.write_now(
            lambda connection: accounts.invite(connection, "command line", is_admin=True)
        )
        click.echo(f"Link for an administrator, good once: {invitation_address(configuration, token)}")
    click.echo(f"{configuration.public_url}  (listening on {host}:{port}; Ctrl-C ends it)")
    log_to_stderr()
    HostingServer(services).run(sockets=[listener])


def arena_of_flag(source: str) -> Mapping[str, Any]:
    """The settings of the arena that `--arena` names. Raises DataError, MissingExtraError."""
    from snellen_server.arena.settings import read_arena_file

    if source != "demo":
        return read_arena_file(Path(source))
    for package in DEMO_PACKAGES:
        if find_spec(package) is None:
            raise MissingExtraError(package, "hf", "the arena's demo")
    return DEMO
