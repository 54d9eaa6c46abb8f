"""Failures of a run put together by how their pictures look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from snellen.common.images import ImageStore
from snellen.records import Sample
from snellen.reformulation.near_answers import picture_descriptors
from snellen.viewing.filters import QuestionFilter
from snellen.viewing.indexing import RIGHT, UNPARSED, WRONG
from snellen.viewing.library import RunLibrary, ShownRun
from snellen.viewing.questions import find_picture

if TYPE_CHECKING:
    import numpy as np

MOST_QUESTIONS = 2_000
"""Questions whose pictures are looked at, the first in the run's order."""
SIZE = 12
"""Questions of a cluster, about."""
ROUNDS = 20
STANDARD_ERRORS = 2.0
"""By how many of them the wrong answers of a cluster are more than its share."""


class AlikeQuestion(Struct, frozen=True):
    digest: str
    address: str
    is_wrong: bool


class AlikeCluster(Struct, frozen=True):
    """Questions about pictures that look alike."""

    questions: tuple[AlikeQuestion, ...]

    @property
    def wrong(self) -> int:
        return sum(question.is_wrong for question in self.questions)


def alike_failures(library: RunLibrary, run: ShownRun, protocol: str) -> list[AlikeCluster]:
    """Clusters with clearly more wrong answers than the others, the worst first, each with its failures first."""
    questions = _questions(library, run, protocol)
    if len(questions) < 2 * SIZE:
        return []
    vectors = picture_descriptors([_content(library, question.digest) for question in questions])
    share = sum(question.is_wrong for question in questions) / len(questions)
    clusters = []
    for places in _clusters(vectors, len(questions) // SIZE):
        members = sorted((questions[place] for place in places), key=lambda question: not question.is_wrong)
        cluster = AlikeCluster(tuple(members))
        excess = cluster.wrong - share * len(members)
        if excess > STANDARD_ERRORS * (len(members) * share * (1 - share)) ** 0.5:
            clusters.append((excess, cluster))
    return [cluster for _, cluster in sorted(clusters, key=lambda pair: -pair[0])]


def _questions(library: RunLibrary, run: ShownRun, protocol: str) -> list[AlikeQuestion]:
    chosen = QuestionFilter(run=run.name, protocol=protocol)
    rows = library.rows(
        "SELECT benchmark, sample_id, turn, build, outcome, sample FROM entry JOIN question ON question.id = question "
        f"JOIN question_record USING (question) WHERE run = ? AND protocol = ? AND outcome IN ({RIGHT}, {WRONG}, "
        f"{UNPARSED}) ORDER BY benchmark, place, turn LIMIT ?",
        run.id, protocol, MOST_QUESTIONS,
    )  # fmt: skip
    shown = ((row, msgspec.json.decode(row[5], type=Sample)) for row in rows)
    return [
        AlikeQuestion(sample.images[0].digest, chosen.question_address(*row[:4]), row[4] != RIGHT)
        for row, sample in shown
        if sample.images
    ]


def _content(library: RunLibrary, digest: str) -> bytes:
    folder, image = find_picture(library, digest)
    return ImageStore(folder / "images").read(image)


def _clusters(vectors: np.ndarray, count: int) -> list[Sequence[int]]:
    """Spherical k-means of unit vectors, begun with vectors far from one another: the same whenever it is called."""
    import numpy as np

    centres = [vectors[0]]
    nearest = vectors @ centres[0]
    for _ in range(count - 1):
        centres.append(vectors[int(nearest.argmin())])
        nearest = np.maximum(nearest, vectors @ centres[-1])
    middle = np.stack(centres)
    for _ in range(ROUNDS):
        members = (vectors @ middle.T).argmax(axis=1)
        sums = np.stack([vectors[members == place].sum(axis=0) for place in range(count)])
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        middle = np.where(lengths > 0, sums / np.where(lengths > 0, lengths, 1), middle)
    return [
        [int(row) for row in np.flatnonzero(members == place)] for place in range(count) if (members == place).any()
    ]
