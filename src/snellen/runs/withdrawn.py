"""Answers that a model takes back during a run, and that are asked again.

A local model checks some of its answers against a slow reference. When one differs, the answers to requests like it may
be wrong too. Their keys are written to `withdrawn-N.txt` before they are asked again, so that a run that ends in
between asks them when it resumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from snellen.common.foreign import lines_of, open_file
from snellen.formats.whole_files import write_atomically
from snellen.models.base import AsyncModel, Model, WithdrawsAnswers, answer_group
from snellen.runs.journal import read_exchanges


def withdrawn_path(folder: Path, worker: int) -> Path:
    """Return the file with the keys of answers that a worker of a run asks again."""
    return folder / f"withdrawn-{worker}.txt"


def resume_withdrawn(
    folder: Path, worker: int, models: Mapping[str, Model | AsyncModel]
) -> frozenset[str]:
    """Return the keys that an earlier session withdrew, and let the models answer requests like them by the reference.

    The request in which the earlier session found the difference was mended there. It is not asked again, so that no
    check of this session need find it.
    """
    keys = read_withdrawn(folder, worker)
    if not keys:
        return keys
    for exchange in read_exchanges(folder):
        model = models.get(exchange.request.role)
        if exchange.request.key in keys and isinstance(model, WithdrawsAnswers):
            model.distrust(answer_group(exchange.request))
    return keys


def read_withdrawn(folder: Path, worker: int) -> frozenset[str]:
    """Return the keys of requests whose replies an earlier session found wrong, and which were not all sent again."""
    path = withdrawn_path(folder, worker)
    if not path.is_file():
        return frozenset()
    with open_file(path) as file:
        return frozenset(line.decode("ascii", "replace").strip() for line in lines_of(file))


def withdraw(folder: Path, worker: int, models: Mapping[str, Model | AsyncModel]) -> frozenset[str]:
    """Return the keys of answers in a run that its models doubt by now, and write them down.

    Args:
        folder: The folder of the run.
        worker: Index of the process.
        models: The models by role, which is empty for the evaluated model.
    """
    doubting: dict[str, WithdrawsAnswers] = {}
    for role, model in models.items():
        if isinstance(model, WithdrawsAnswers) and model.disproved:
            doubting[role] = model
    if not doubting:
        return frozenset()
    keys: set[str] = set()
    for exchange in read_exchanges(folder):
        request = exchange.request
        doubting_model = doubting.get(request.role)
        if doubting_model is None or exchange.response.error is not None:
            continue
        if doubting_model.doubts(request):
            keys.add(request.key)
    if keys:
        # This session may have been stopped before it asked all that an earlier one withdrew.
        unfinished = keys | read_withdrawn(folder, worker)
        lines = "".join(f"{key}\n" for key in sorted(unfinished))
        write_atomically(withdrawn_path(folder, worker), lines.encode())
    return frozenset(keys)
