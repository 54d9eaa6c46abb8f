"""Failures of a run put together: by tag, by the answer given, by why a reply was not parsed, by how images look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from snellen.common.images import ImageStore
from snellen.records import Sample
from snellen.reformulation.near_distractors import image_descriptors
from snellen.report.samples import OUTCOMES
from snellen.viewing.filters import QuestionFilter
from snellen.viewing.index_database import RIGHT, UNPARSED, WRONG
from snellen.viewing.library import RunLibrary, ShownRun
from snellen.viewing.questions import find_image

if TYPE_CHECKING:
    import numpy as np

MOST_CLUSTERS = 12
FEWEST_QUESTIONS = 5
"""Questions of a tag below which it is not a cluster."""
STANDARD_ERRORS = 2.0
"""By how many of them the wrong answers of a tag or a cluster are more than their share."""


class Cluster(Struct, frozen=True):
    """Questions with something in common."""

    description: str
    count: int
    """Failures."""
    total: int | None
    """All questions that are right or not, where these are told apart."""
    questions: QuestionFilter


class ClusterGroup(Struct, frozen=True):
    title: str
    clusters: tuple[Cluster, ...]


def failure_clusters(library: RunLibrary, run: ShownRun, protocol: str) -> list[ClusterGroup]:
    """Those of a run under one protocol; groups without a cluster are left out."""
    chosen = QuestionFilter(run=run.name, protocol=protocol)
    groups = [
        ClusterGroup(
            "tags with significantly more wrong answers than others", _by_tag(library, run, chosen)
        ),
        ClusterGroup(
            "most frequent wrong answers", _by_reading(library, run, chosen.to(outcome="wrong"))
        ),
        ClusterGroup(
            "why questions were unparsed", _by_reading(library, run, chosen.to(outcome="unparsed"))
        ),
        ClusterGroup("errors", _by_reading(library, run, chosen.to(outcome="error"))),
    ]
    return [group for group in groups if group.clusters]


def _by_tag(library: RunLibrary, run: ShownRun, chosen: QuestionFilter) -> tuple[Cluster, ...]:
    """Return the values of tags whose questions are clearly more often wrong than the others, the worst first."""
    scored = f"run = ? AND protocol = ? AND outcome IN ({RIGHT}, {WRONG}, {UNPARSED})"
    [(wrong, total)] = library.rows(
        f"SELECT sum(outcome = {WRONG}), count(*) FROM entry WHERE {scored}",
        run.id,
        chosen.protocol,
    )
    share = (wrong or 0) / (total or 1)
    of_run = "question IN (SELECT question FROM entry WHERE run = ?1 AND protocol = ?2 AND outcome IN ({}))"
    # One look through all tags: to look up those of each question is slower, and more so the more tags there are.
    rows = library.rows(
        "WITH counted AS MATERIALIZED (SELECT tag, "
        f"sum({of_run.format(WRONG)}) AS wrong, sum({of_run.format(f'{RIGHT}, {UNPARSED}')}) AS others "
        "FROM tag GROUP BY tag) SELECT tag, wrong, wrong + others AS n FROM counted WHERE n >= ?3 AND wrong > n * ?4 "
        "AND (wrong - n * ?4) * (wrong - n * ?4) > ?5 * n ORDER BY wrong - n * ?4 DESC LIMIT ?6",
        run.id,
        chosen.protocol,
        FEWEST_QUESTIONS,
        share,
        STANDARD_ERRORS**2 * share * (1 - share),
        MOST_CLUSTERS,
    )
    return tuple(
        Cluster(tag, count, n, chosen.to(tag=tag, outcome="wrong")) for tag, count, n in rows
    )


def _by_reading(library: RunLibrary, run: ShownRun, chosen: QuestionFilter) -> tuple[Cluster, ...]:
    """Return the wrong or unparsed questions of a run in clusters by what their replies were read as."""
    rows: Sequence[tuple[str, int]] = library.rows(
        "SELECT reading, count(*) AS n FROM entry WHERE run = ? AND protocol = ? AND outcome = ? "
        "GROUP BY reading ORDER BY n DESC, reading LIMIT ?",
        run.id,
        chosen.protocol,
        OUTCOMES.index(chosen.outcome),
        MOST_CLUSTERS,
    )
    return tuple(
        Cluster(reading or "(nothing)", count, None, chosen.to(reading=reading))
        for reading, count in rows
    )


# --- by how their images look --------------------------------------------------------------------------------------


MOST_QUESTIONS = 2_000
"""Questions whose images are looked at, the first in the run's order."""
SIZE = 12
"""Questions of a cluster, about."""
ROUNDS = 20


class AlikeQuestion(Struct, frozen=True):
    digest: str
    address: str
    is_wrong: bool


class AlikeCluster(Struct, frozen=True):
    """Questions about images that look alike."""

    questions: tuple[AlikeQuestion, ...]

    @property
    def wrong(self) -> int:
        return sum(question.is_wrong for question in self.questions)


def alike_failures(library: RunLibrary, run: ShownRun, protocol: str) -> list[AlikeCluster]:
    """Find groups of similar images on which a model makes clearly more mistakes than on others.

    Images are grouped by how they look. In each group, the wrongly answered questions come first.

    Returns:
        The groups, sorted by how many more wrong answers they have than expected.
    """
    questions = _questions(library, run, protocol)
    if len(questions) < 2 * SIZE:
        return []
    images = [_content(library, question.digest) for question in questions]
    wrong_share = sum(question.is_wrong for question in questions) / len(questions)
    clusters: list[tuple[float, AlikeCluster]] = []
    for indexes in _clusters(image_descriptors(images), len(questions) // SIZE):
        members = [questions[index] for index in indexes]
        members.sort(key=lambda question: not question.is_wrong)
        cluster = AlikeCluster(tuple(members))
        expected_wrong = wrong_share * len(members)
        excess = cluster.wrong - expected_wrong
        standard_error = (len(members) * wrong_share * (1 - wrong_share)) ** 0.5
        if excess > STANDARD_ERRORS * standard_error:
            clusters.append((excess, cluster))
    clusters.sort(key=lambda excess_and_cluster: -excess_and_cluster[0])
    return [cluster for _, cluster in clusters]


def _questions(library: RunLibrary, run: ShownRun, protocol: str) -> list[AlikeQuestion]:
    """Return the first questions of a run with an image under a protocol, and whether their answers were wrong."""
    chosen = QuestionFilter(run=run.name, protocol=protocol)
    rows = library.rows(
        "SELECT benchmark, sample_id, turn, build, outcome, sample FROM entry JOIN question ON question.id = question "
        f"JOIN question_record USING (question) WHERE run = ? AND protocol = ? AND outcome IN ({RIGHT}, {WRONG}, "
        f"{UNPARSED}) ORDER BY benchmark, place, turn LIMIT ?",
        run.id,
        protocol,
        MOST_QUESTIONS,
    )
    questions = []
    for benchmark, sample_id, turn, build, outcome, encoded_sample in rows:
        sample = msgspec.json.decode(encoded_sample, type=Sample)
        if sample.images:
            address = chosen.question_address(benchmark, sample_id, turn, build)
            is_wrong = outcome != RIGHT
            questions.append(AlikeQuestion(sample.images[0].digest, address, is_wrong))
    return questions


def _content(library: RunLibrary, digest: str) -> bytes:
    folder, image = find_image(library, digest)
    return ImageStore(folder / "images").read(image)


def _clusters(vectors: np.ndarray, count: int) -> list[Sequence[int]]:
    """Cluster vectors by spherical k-means, without any randomness.

    The initial centres are vectors that are far from each other: the first vector, then each time the one that is least
    similar to all centres so far.

    Args:
        vectors: Vectors of length 1, shape (N, D).
        count: Number of clusters.

    Returns:
        The indexes of the vectors of each cluster, without empty clusters.
    """
    import numpy as np

    first_centres = [vectors[0]]
    similarity_to_nearest = vectors @ first_centres[0]  # shape (N,)
    for _ in range(count - 1):
        farthest = vectors[int(similarity_to_nearest.argmin())]
        first_centres.append(farthest)
        similarity_to_nearest = np.maximum(similarity_to_nearest, vectors @ farthest)

    centres = np.stack(first_centres)  # shape (count, D)
    cluster_of_vector = np.zeros(len(vectors), dtype=np.intp)
    for _ in range(ROUNDS):
        similarities = vectors @ centres.T  # shape (N, count)
        cluster_of_vector = similarities.argmax(axis=1)
        sums_by_cluster = []
        for cluster in range(count):
            members = vectors[cluster_of_vector == cluster]
            sums_by_cluster.append(members.sum(axis=0))
        sums = np.stack(sums_by_cluster)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        # The centre of an empty cluster stays where it is.
        divisors = np.where(lengths > 0, lengths, 1)
        centres = np.where(lengths > 0, sums / divisors, centres)

    clusters: list[Sequence[int]] = []
    for cluster in range(count):
        indexes = np.flatnonzero(cluster_of_vector == cluster)
        if len(indexes):
            clusters.append([int(index) for index in indexes])
    return clusters
