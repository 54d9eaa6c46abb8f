"""Withdrawn answers: answers of a model that may be wrong, so that their requests are sent again.

A local model checks some of its answers by a slow reference method. If one differs, the answers to requests of the same
group may be wrong too. The keys of these requests are written to `withdrawn-N.txt` before they are sent again, so that
a run that is stopped in between sends them when it resumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from snellen.common.foreign import lines_of, open_file
from snellen.formats.whole_files import write_atomically
from snellen.models.base import AsyncModel, Model, WithdrawsAnswers, answer_group
from snellen.runs.journal import read_exchanges


def withdrawn_path(folder: Path, worker: int) -> Path:
    """Return the file with the keys of the requests that a worker of a run sends again."""
    return folder / f"withdrawn-{worker}.txt"


def resume_withdrawn(
    folder: Path, worker: int, models: Mapping[str, Model | AsyncModel]
) -> frozenset[str]:
    """Return the keys of the requests whose answers an earlier session withdrew, and has not sent again.

    The models are told to answer requests of the same groups by the slow reference method. This session might not find
    the difference itself: the answer in which the earlier session found it was corrected there.

    Args:
        folder: The folder of the run.
        worker: Index of the worker process.
        models: The models by role.
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
    """Return the keys of the requests of a run whose answers may be wrong, and write them to a file.

    An answer may be wrong if the model gave a wrong answer to another request of the same group. A
    group has requests of the same kind with the same number of images.

    Args:
        folder: The folder of the run.
        worker: Index of the worker process.
        models: The models by role, which is empty for the evaluated model.
    """
    models_with_errors: dict[str, WithdrawsAnswers] = {}
    for role, model in models.items():
        if isinstance(model, WithdrawsAnswers) and model.disproved:
            models_with_errors[role] = model
    if not models_with_errors:
        return frozenset()
    keys: set[str] = set()
    for exchange in read_exchanges(folder):
        request = exchange.request
        model_with_errors = models_with_errors.get(request.role)
        if model_with_errors is None or exchange.response.error is not None:
            continue
        if model_with_errors.doubts(request):
            keys.add(request.key)
    if keys:
        # An earlier session may have withdrawn answers that this session has not sent again yet.
        keys_to_send = keys | read_withdrawn(folder, worker)
        lines = "".join(f"{key}\n" for key in sorted(keys_to_send))
        write_atomically(withdrawn_path(folder, worker), lines.encode())
    return frozenset(keys)
