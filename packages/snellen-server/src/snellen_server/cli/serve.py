"""`snellen serve` and `snellen serve-data`"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec.structs import replace

from snellen import DataError
from snellen.plugin_api import MissingExtraError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from snellen_server.hosting.configuration import Configuration

DEMO: Mapping[str, Any] = {
    "models": [
        {"name": "tiny", "model": "snellen:tiny"},
        {"name": "tiny-xs", "model": "snellen:tiny-xs"},
    ],
    "examples": ["eyechart/colour"],
    "examples_each": 8,
}
DEMO_PACKAGES = ("torch", "transformers")
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
DIR = click.argument(
    "folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True)
)
DATABASE = click.option(
    "--database", metavar="URL", help="Database of the server, if it is not in DIR."
)
CONFIG = click.option("--config", "file", type=FILE, help="TOML file of the server.")
ACCOUNT = click.option("--account", metavar="NAME", help="Name of the account.")
VISITOR = click.option("--visitor", metavar="ID", help="Pseudonym of a visitor without an account.")


@contextmanager
def private_files() -> Iterator[None]:
    """Create files inside the block so that only their owner can read them: images, uploads and logs of a server."""
    previous_mask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(previous_mask)


@click.command()
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option("--host", default="127.0.0.1", help="Address to listen on.  [127.0.0.1]")
@click.option(
    "--port", default=7879, type=click.IntRange(0, 65535), help="Port, 0 for a free one.  [7879]"
)
@click.option(
    "--database", metavar="URL", help="postgresql://USER@HOST/NAME instead of SQLite in DIR."
)
@click.option("--config", "file", type=FILE, help="TOML file of the server (docs/server.md).")
@click.option(
    "--arena",
    "arena",
    metavar="demo|FILE",
    help="Models of the arena: the two that ship with Snellen, or a TOML file.",
)
@click.option(
    "--admin",
    "invites",
    is_flag=True,
    help="Print a link that makes one person an administrator.",
)
@private_files()
def serve(
    folder: Path,
    host: str,
    port: int,
    database: str | None,
    file: Path | None,
    arena: str | None,
    invites: bool,
) -> None:
    """Serve the leaderboard, the arena and all other installed features from the folder DIR.

    The first start creates DIR. Ctrl-C or SIGTERM stops the server after the requests in progress. Before you open it
    to others, put a proxy with TLS in front of it (deploy/ contains one), and set `public_url` and `trusted_proxies` in
    the file that --config names.
    """
    from snellen.plugin_api import open_listener
    from snellen_server.hosting.account_pages import invitation_address
    from snellen_server.hosting.accounts import has_admin, invite
    from snellen_server.hosting.application import HostingServer
    from snellen_server.hosting.monitoring import log_to_stderr
    from snellen_server.hosting.services import open_services

    configuration = _configuration(folder, file, database)
    if arena is not None:
        settings_files = dict(configuration.settings_files)
        if arena == "demo":
            settings_files.pop("arena", None)
        else:
            settings_files["arena"] = Path(arena)
        configuration = replace(
            configuration,
            feature={**configuration.feature, "arena": arena_of_flag(arena)},
            settings_files=settings_files,
        )
    listener = open_listener(port, host)
    port = listener.getsockname()[1]
    configuration = configuration.at_port(port)
    services = open_services(configuration)
    if invites or not services.database.read_now(has_admin):
        token = services.database.write_now(invite, "command line", is_admin=True)
        click.echo(
            f"Link for an administrator, valid once: {invitation_address(configuration, token)}"
        )
    click.echo(f"{configuration.public_url}  (listening on {host}:{port}; press Ctrl-C to stop)")
    log_to_stderr()
    # After it has stopped, uvicorn raises the signal again. The log has reported the stop already.
    with suppress(KeyboardInterrupt):
        HostingServer(services).run(sockets=[listener])


def arena_of_flag(source: str) -> Mapping[str, Any]:
    """Return the settings of the arena that the flag `--arena` names.

    Args:
        source: A TOML file, or `demo` for the models that come with Snellen.

    Raises:
        DataError: The file cannot be read.
        MissingExtraError: A package that the models of the demo need is not installed.
    """
    from snellen_server.arena.settings import read_arena_file

    if source != "demo":
        return read_arena_file(Path(source))
    for package in DEMO_PACKAGES:
        if find_spec(package) is None:
            raise MissingExtraError(package, "hf", "the arena's demo")
    return DEMO


# --- commands for the data of a server ---------------------------------------------------------------------------------


@click.group()
def serve_data() -> None:
    """Back up the data of a server, show or erase the data of a person, and delete expired data.

    The server can run meanwhile.
    """


@serve_data.command()
@DIR
@CONFIG
@click.argument("archive", metavar="FILE.tar", type=FILE)
def backup(folder: Path, file: Path | None, archive: Path) -> None:
    """Write the database, the images and the key in DIR to FILE.tar, without the runs in DIR/runs."""
    from snellen_server.hosting.database import back_up

    count = back_up(_configuration(folder, file, None), archive)
    click.echo(f"{archive}: the database, the key and {count} images")
    if (folder / "runs").is_dir():
        click.echo(f"the runs in {folder / 'runs'} are not included; copy that folder as well")


@serve_data.command("restore")
@click.argument(
    "archive", metavar="FILE.tar", type=click.Path(path_type=Path, dir_okay=False, exists=True)
)
@click.argument("folder", metavar="DIR", type=FOLDER)
def restore_backup(archive: Path, folder: Path) -> None:
    """Restore a backup to DIR, which must not exist yet."""
    from snellen_server.hosting.database import restore

    restore(archive, folder)
    click.echo(f"{folder}: restored; snellen serve {folder}")


@serve_data.command()
@DIR
@DATABASE
@CONFIG
@ACCOUNT
@VISITOR
def export(account: str | None, visitor: str | None, **server: Any) -> None:
    """Print all data about a person as JSON."""
    from snellen_server.hosting.accounts import export_person

    records = _write_for_person(account, visitor, server, export_person)
    content = msgspec.json.format(msgspec.json.encode(records), indent=2)
    sys.stdout.buffer.write(content + b"\n")


@serve_data.command()
@DIR
@DATABASE
@CONFIG
@ACCOUNT
@VISITOR
def erase(account: str | None, visitor: str | None, **server: Any) -> None:
    """Erase a person: the account, and everything that refers to it."""
    from snellen_server.hosting.accounts import erase_person

    erase_as_operator = partial(erase_person, asked_by="command line")
    erased = _write_for_person(account, visitor, server, erase_as_operator)
    _print_counts(erased)


@serve_data.command("purge")
@DIR
@DATABASE
@CONFIG
def purge_old(**server: Any) -> None:
    """Delete data whose retention period is over. A running server does this itself four times a day."""
    from snellen_server.hosting.accounts import purge

    configuration = _configuration(**server)
    deleted = _write_in_database(configuration, lambda connection: purge(connection, configuration))
    _print_counts(deleted)


def _configuration(folder: Path, file: Path | None, database: str | None) -> Configuration:
    """Return the configuration of a server.

    Args:
        folder: The folder of the server.
        file: Its TOML file; None if it has none.
        database: The URL of its database; None for the one in the configuration.
    """
    from snellen_server.hosting.configuration import load_configuration

    if database:
        return load_configuration(folder, file, database=database)
    return load_configuration(folder, file)


def _write_for_person(
    account: str | None,
    visitor: str | None,
    server: dict[str, Any],
    work: Callable[[Connection, str], Any],
) -> Any:
    """Call a function with the database of a server and the identifier of a person, and return its result.

    Args:
        account: The name of the person's account; None for a visitor.
        visitor: The pseudonym of a visitor; None for an account.
        server: The arguments of `_configuration`.
        work: The function.

    Raises:
        DataError: Neither an account nor a visitor is given, or both are.
    """
    from snellen_server.hosting.accounts import find_actor

    if (account is None) == (visitor is None):
        raise DataError("name the person: --account NAME, or --visitor ID")

    def work_for_person(connection: Connection) -> Any:
        person = find_actor(connection, account) if account else f"visitor:{visitor}"
        return work(connection, person)

    return _write_in_database(_configuration(**server), work_for_person)


def _write_in_database(configuration: Configuration, work: Callable[[Connection], Any]) -> Any:
    """Call a function in a transaction of a server's database, and return its result."""
    from snellen_server.hosting.services import open_database

    with closing(open_database(configuration)) as database:
        return database.write_now(work)


def _print_counts(counts: dict[str, int]) -> None:
    for table, count in counts.items():
        click.echo(f"{table}: {count}")
