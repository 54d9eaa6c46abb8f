"""Remove the folder of a run that failed before the first reply."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from snellen.errors import StoreError
from snellen.runs.journal import holds_replies
from snellen.runs.locks import LOCK
from snellen.runs.own_questions import QUESTIONS
from snellen.runs.run_folder import MANIFEST_COPY, RUN_MANIFEST, journals

WITHOUT_REPLIES = (LOCK, RUN_MANIFEST, MANIFEST_COPY, QUESTIONS)
"""What a session writes before the first reply, besides the journals."""


@contextmanager
def removed_without_replies(folder: Path) -> Iterator[None]:
    """Remove a run folder if the body, which is its first session, raises before any reply is stored.

    A mistyped address would otherwise leave a run that has a name and no numbers. The folder is kept if it contained
    anything before, such as a run or files of the user, or if it contains anything else now, such as submitted batches.

    Args:
        folder: The folder of the run. The caller holds its lock.
    """
    was_empty = all(path.name == LOCK for path in folder.iterdir())
    try:
        yield
    except BaseException:
        with suppress(OSError, StoreError):  # the error that ends the session matters more
            if was_empty and _is_without_replies(folder):
                shutil.rmtree(folder)
        raise


def _is_without_replies(folder: Path) -> bool:
    """Return whether a folder has only what a session writes before the first reply, and failed requests."""
    run_journals = journals(folder)
    for path in folder.iterdir():
        if path.name not in WITHOUT_REPLIES and path not in run_journals:
            return False
    return not holds_replies(folder)
