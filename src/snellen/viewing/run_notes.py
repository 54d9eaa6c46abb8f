"""Notes of users on runs and samples, in files that only grow. The last line about a run or a sample counts.

run-notes.jsonl     one RunNote per line, in a folder of runs: another name, tags, and whether the run is archived
notes.jsonl         one SampleNote per line, in the folder of a run
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.formats.json_files import add_lines, kept_lines

RUN_NOTES = "run-notes.jsonl"
SAMPLE_NOTES = "notes.jsonl"
MAX_TAGS = 20
MAX_TAG_LENGTH = 40
MAX_NOTE_LENGTH = 4000


class RunNote(Struct, frozen=True, omit_defaults=True):
    """The note on a run."""

    run: str
    """Folder of the run, relative to that of the file."""
    alias: str = ""
    tags: tuple[str, ...] = ()
    archived: bool = False


class SampleNote(Struct, frozen=True, omit_defaults=True):
    """A note on a question of a run. A note with an empty text removes the earlier one."""

    benchmark: str
    sample_id: str
    turn: int = 0
    text: str = ""
    by: str = ""


def as_tags(text: str) -> tuple[str, ...]:
    """Split a text into tags at commas and spaces. Duplicates are removed; long tags and long lists are cut off."""
    tags: dict[str, None] = {}
    for word in text.replace(",", " ").split():
        tags[word[:MAX_TAG_LENGTH]] = None
    return tuple(tags)[:MAX_TAGS]


def read_run_notes(roots: Sequence[Path]) -> dict[Path, RunNote]:
    """Return the notes on runs by the folder of the run.

    Args:
        roots: Folders of runs, or runs. The folder that contains a root is searched, too.

    Raises:
        StoreError: A line is not a note.
    """
    folders: dict[Path, None] = {}
    for root in roots:
        folders[root] = None
        folders[root.parent] = None
    notes = {}
    for folder in folders:
        for note in kept_lines(folder / RUN_NOTES, RunNote, "a note"):
            notes[folder / note.run] = note
    return notes


def write_run_note(roots: Sequence[Path], run: Path, note: RunNote) -> None:
    """Write a note on a run, to the root that contains the run or else to its parent folder. Raises StoreError."""
    folder = run.parent
    for root in roots:
        if root in run.parents:
            folder = root
            break
    name = run.relative_to(folder).as_posix()
    add_lines(folder / RUN_NOTES, msgspec.structs.replace(note, run=name))


def read_sample_notes(run: Path) -> dict[tuple[str, str, int], SampleNote]:
    """Read the notes of users on samples of a run.

    A later note replaces an earlier one on the same sample. An empty note removes it.

    Returns:
        The notes by (benchmark, identifier of the sample, index of the round).

    Raises:
        StoreError: A line is not a note.
    """
    latest: dict[tuple[str, str, int], SampleNote] = {}
    for note in kept_lines(run / SAMPLE_NOTES, SampleNote, "a note"):
        latest[note.benchmark, note.sample_id, note.turn] = note
    return {key: note for key, note in latest.items() if note.text}


def write_sample_note(run: Path, note: SampleNote) -> None:
    """Write a note on a sample to the folder of its run. Raises StoreError."""
    add_lines(run / SAMPLE_NOTES, note)
