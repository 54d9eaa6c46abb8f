"""Programs that metrics ask line by line, and that take long to start: one process serves all of a scoring."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_kept_processes: ContextVar[dict[tuple[str, ...], subprocess.Popen[str]] | None] = ContextVar(
    "kept programs", default=None
)


@contextmanager
def programs_kept() -> Iterator[None]:
    """Keep programs that metrics start, such as METEOR's Java program, running until the context ends.

    They are then started once and not again for each benchmark. A context within another one has no effect.
    """
    if _kept_processes.get() is not None:
        yield
        return
    processes: dict[tuple[str, ...], subprocess.Popen[str]] = {}
    outside = _kept_processes.set(processes)
    try:
        yield
    finally:
        _kept_processes.reset(outside)
        for process in processes.values():
            _end(process)


@contextmanager
def asked_program(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a command with pipes for texts while the block lasts.

    The process ends with the block. Within `programs_kept`, it is kept for the next block unless an error was raised.
    """
    kept_programs = _kept_processes.get()
    key = tuple(command)
    process = None if kept_programs is None else kept_programs.pop(key, None)
    if process is None or process.poll() is not None:
        process = subprocess.Popen(  # noqa: S603 - a program that a metric names, no shell
            key,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
    try:
        yield process
    except BaseException:
        _end(process)
        raise
    if kept_programs is None:
        _end(process)
    else:
        kept_programs[key] = process


def _end(process: subprocess.Popen[str]) -> None:
    """Close the input of a program, which makes it end, and wait until it has ended."""
    with process:
        pass
