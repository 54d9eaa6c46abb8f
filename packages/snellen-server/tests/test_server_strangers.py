"""A stranger without an account does nothing through the server: imports no code, writes no row, starts no process."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from served import served
from servers import Server
from snellen_server.hosting.features import installed_features
from test_strangers import (
    addresses,
    api,
    check_refusal,
    children_of,
    evil,
    files_below,
    hostile_fields,
    send_all,
)

__all__ = ["api", "evil"]  # fixtures


LIMITS = """
[limits]
"every request" = { per_visitor = "1000000/second", per_network = "1000000/second" }
[feature.arena]
models = [
  { name = "one", model = "openai:one@URL" },
  { name = "two", model = "openai:two@URL" },
]
"""


def rows_of(database: Path) -> dict[str, int]:
    """The number of rows of each table, but for the leases of jobs, which come and go."""
    with closing(sqlite3.connect(database)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'job_lease'"
        )
        return {
            name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
            for (name,) in tables.fetchall()
        }


def paths_of(router: Any) -> Iterator[str]:
    for route in router.routes:
        inner = getattr(route, "original_router", None)
        if inner is None:
            yield route.path
        else:
            yield from paths_of(inner)


def test_a_stranger_does_nothing_through_the_server(
    tmp_path: Path, evil: Path, api: Server
) -> None:
    folder, log, config = tmp_path / "lab", tmp_path / "log", tmp_path / "server.toml"
    log.mkdir()
    config.write_text(LIMITS.replace("URL", api.url))
    paths = addresses(path for feature in installed_features() for path in paths_of(feature.router))
    assert "/api/v1/arena/battles" in paths and "/sign-in" in paths

    environment = {"SNELLEN_HOME": str(tmp_path / "home"), "PYTHONPATH": str(tmp_path)}
    with served("serve", folder, "--config", config, folder=log, **environment) as server:
        while server.visitor().get("/readyz").status_code != 200:
            time.sleep(0.1)
        trials = len(api.seen())
        children = children_of(server.process.pid)
        rows, files = rows_of(folder / "snellen.sqlite"), files_below(folder, evil.parent)
        for method, path, sender, answer in send_all(server, paths, hostile_fields(evil, api.url)):
            if method == "GET" and path.startswith("/openapi"):
                continue
            check_refusal(method, path, sender, answer)
            assert not (tmp_path / "imported").exists(), f"{method} {answer.url}"
        assert rows_of(folder / "snellen.sqlite") == rows
        assert files_below(folder, evil.parent) == files
        assert children_of(server.process.pid) == children
        assert server.process.poll() is None
    assert len(api.seen()) == trials
