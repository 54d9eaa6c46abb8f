"""A real kernel of a notebook."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NEEDED = "needs jupyter_client and ipykernel (pip install '.[dev]')"
jupyter_client = pytest.importorskip("jupyter_client", reason=NEEDED)
pytest.importorskip("ipykernel", reason=NEEDED)


class Notebook:
    """One kernel; `run` executes a cell and gives what it showed, by media type, and the error it ended with.

    A cell is interrupted once: a second interruption, while the first is being shown, would leave no error.
    """

    def __init__(self, client: Any, manager: Any) -> None:
        self.client, self.manager = client, manager

    def run(self, code: str, interrupted_by: Any = None) -> tuple[list[dict[str, str]], str]:
        shown, fault = [], ""

        def listen(message: dict[str, Any]) -> None:
            nonlocal fault, interrupted_by
            content = message["content"]
            if message["msg_type"] == "stream":
                shown.append({"text/plain": content["text"]})
            elif message["msg_type"] == "error":
                fault = "\n".join(content["traceback"])
            elif "data" in content:
                shown.append(content["data"])
                if interrupted_by and interrupted_by(content["data"]):
                    interrupted_by = None
                    self.manager.interrupt_kernel()

        self.client.execute_interactive(code, output_hook=listen, timeout=600, stop_on_error=False)
        return shown, fault


@contextmanager
def opened_notebook(folder: Path, places: Mapping[str, str] | None = None) -> Iterator[Notebook]:
    """A kernel that works in a folder, with the environment that it is given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the client's own packages
        more = {"env": dict(places)} if places else {}
        manager, client = jupyter_client.manager.start_new_kernel(cwd=str(folder), **more)
    try:
        yield Notebook(client, manager)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
