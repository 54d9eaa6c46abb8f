"""Remove the folder of a run that failed before the first request was answered."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from snellen.errors import SnellenError, StoreError
from snellen.runs.journal import read_exchanges
from snellen.runs.locks import LOCK
from snellen.runs.own_questions import QUESTIONS
from snellen.runs.run_folder import MANIFEST_COPY, RUN_MANIFEST, journals

FILES_BEFORE_FIRST_ANSWER = (LOCK, RUN_MANIFEST, MANIFEST_COPY, QUESTIONS)
"""What a session writes before the first answer, besides journals."""


@contextmanager
def removed_if_unanswered(folder: Path) -> Iterator[None]:
    """Remove a run folder if the body, which is its first session, fails before any request is answered.

    A mistyped address, key or name of a model would otherwise leave a run without numbers. The folder is kept if it
    contained anything before, such as a run or files of the user, and if it contains anything else now: replies, requests
    that a server failed to answer, or submitted batches. It is also kept if the user stopped the session.

    Args:
        folder: The folder of the run. The caller holds its lock.
    """
    was_empty = all(path.name == LOCK for path in folder.iterdir())
    try:
        yield
    except SnellenError:
        with suppress(OSError, StoreError):  # the error that ends the session matters more
            if was_empty and _is_unanswered(folder):
                shutil.rmtree(folder)
        raise


def _is_unanswered(folder: Path) -> bool:
    """Return whether a folder has only what a session writes before the first answer.

    Its journals may have requests that reached no server, because the connection failed.
    """
    run_journals = journals(folder)
    for path in folder.iterdir():
        if path.name not in FILES_BEFORE_FIRST_ANSWER and path not in run_journals:
            return False
    for exchange in read_exchanges(folder):
        failure = exchange.response.error
        if failure is None or failure.kind != "connection":
            return False
    return True
