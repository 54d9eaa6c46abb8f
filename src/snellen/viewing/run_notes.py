"""What people write about runs and samples. Files of lines that only grow; the last line about a thing counts.

run-notes.jsonl     one RunNote a line, in a folder of runs: a name of one's own, tags, and whether a run is put away
notes.jsonl         one SampleNote a line, in a run's folder
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.formats.json_files import add_lines, kept_lines

RUN_NOTES, SAMPLE_NOTES = "run-notes.jsonl", "notes.jsonl"
MOST_TAGS, LONGEST_NOTE = 20, 4000


class RunNote(Struct, frozen=True, omit_defaults=True):
    """What people keep about a run."""

    run: str
    """Its folder, from the folder of the file on."""
    alias: str = ""
    tags: tuple[str, ...] = ()
    archived: bool = False


class SampleNote(Struct, frozen=True, omit_defaults=True):
    """What somebody wrote about a question as this run asked it; an empty text takes it back."""

    benchmark: str
    sample_id: str
    turn: int = 0
    text: str = ""
    by: str = ""


def as_tags(text: str) -> tuple[str, ...]:
    """The tags of a text in which commas or spaces stand between them."""
    return tuple(dict.fromkeys(tag[:40] for tag in text.replace(",", " ").split()))[:MOST_TAGS]


def read_run_notes(roots: Sequence[Path]) -> dict[Path, RunNote]:
    """By the run's folder. Raises StoreError for a line that is not a note."""
    places = dict.fromkeys(place for root in roots for place in (root, root.parent))
    return {
        place / note.run: note
        for place in places
        for note in kept_lines(place / RUN_NOTES, RunNote, "a note")
    }


def write_run_note(roots: Sequence[Path], folder: Path, note: RunNote) -> None:
    """Into the folder of runs that the run was found in, or beside it. Raises StoreError."""
    place = next((root for root in roots if root in folder.parents), folder.parent)
    add_lines(
        place / RUN_NOTES, msgspec.structs.replace(note, run=folder.relative_to(place).as_posix())
    )


def read_sample_notes(run: Path) -> dict[tuple[str, str, int], SampleNote]:
    """By benchmark, sample and turn. Raises StoreError for a line that is not a note."""
    lines = kept_lines(run / SAMPLE_NOTES, SampleNote, "a note")
    notes = {(note.benchmark, note.sample_id, note.turn): note for note in lines}
    return {key: note for key, note in notes.items() if note.text}


def write_sample_note(run: Path, note: SampleNote) -> None:
    """Raises StoreError."""
    add_lines(run / SAMPLE_NOTES, note)
