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

MAX_CLUSTERS = 12
MIN_QUESTIONS_OF_TAG = 5
"""The least number of questions of a tag that is shown as a cluster."""
MIN_STANDARD_ERRORS = 2.0
"""By how many standard errors a tag or cluster must have more wrong answers than expected, to be shown."""


class FailureCluster(Struct, frozen=True):
    """Wrongly answered, unparsed or failed questions of a run that have something in common."""

    description: str
    count: int
    """Number of these questions."""
    total: int | None
    """Number of all questions with this tag that have a verdict; None for other kinds of clusters."""
    questions: QuestionFilter


class FailureClusterGroup(Struct, frozen=True):
    """Clusters of one kind, such as those by tag, under a heading."""

    title: str
    clusters: tuple[FailureCluster, ...]


def failure_clusters(
    library: RunLibrary, run: ShownRun, protocol: str
) -> list[FailureClusterGroup]:
    """Return groups of wrong, unparsed or failed questions of a run that have something in common.

    Returns:
        At most four groups, without empty ones: by tags (such as `colour=red`) that have significantly many wrong
        answers, by frequent wrong answers, by the reason why a reply was not parsed, and by the kind of error.
    """
    chosen = QuestionFilter(run=run.name, protocol=protocol)
    clusters_by_title = {
        "tags with significantly more wrong answers than others": _failures_by_tag(
            library, run, chosen
        ),
        "most frequent wrong answers": _failures_by_reading(
            library, run, chosen.to(outcome="wrong")
        ),
        "why questions were unparsed": _failures_by_reading(
            library, run, chosen.to(outcome="unparsed")
        ),
        "errors": _failures_by_reading(library, run, chosen.to(outcome="error")),
    }
    groups: list[FailureClusterGroup] = []
    for title, clusters in clusters_by_title.items():
        if clusters:
            groups.append(FailureClusterGroup(title, clusters))
    return groups


def _failures_by_tag(
    library: RunLibrary, run: ShownRun, chosen: QuestionFilter
) -> tuple[FailureCluster, ...]:
    """Find the tags, such as `colour=red`, whose questions are answered wrongly significantly more often than all
    questions.

    A tag is significant if its number of wrong answers is above the expected one by more than `MIN_STANDARD_ERRORS`
    standard errors. With 10% wrong answers over all questions, 50 questions of a tag are expected to have 5.

    Args:
        library: The index of the runs.
        run: The run.
        chosen: A filter for the run and the protocol.

    Returns:
        A cluster for each significant tag, in descending order of the wrong answers beyond the expected number.
    """
    has_verdict = f"run = ? AND protocol = ? AND outcome IN ({RIGHT}, {WRONG}, {UNPARSED})"
    [(n_wrong, n_questions)] = library.rows(
        f"SELECT sum(outcome = {WRONG}), count(*) FROM entry WHERE {has_verdict}",
        run.id,
        chosen.protocol,
    )
    wrong_share = (n_wrong or 0) / (n_questions or 1)
    variance = wrong_share * (1 - wrong_share)  # of one question

    # One scan of all tags is faster than to look up the tags of each question.
    with_outcome = "question IN (SELECT question FROM entry WHERE run = ?1 AND protocol = ?2 AND outcome IN ({}))"
    is_wrong = with_outcome.format(WRONG)
    is_other = with_outcome.format(f"{RIGHT}, {UNPARSED}")
    rows = library.rows(
        f"WITH counted AS MATERIALIZED (SELECT tag, sum({is_wrong}) AS wrong, sum({is_other}) AS others "
        "FROM tag GROUP BY tag) SELECT tag, wrong, wrong + others AS n FROM counted WHERE n >= ?3 AND wrong > n * ?4 "
        "AND (wrong - n * ?4) * (wrong - n * ?4) > ?5 * n ORDER BY wrong - n * ?4 DESC LIMIT ?6",
        run.id,
        chosen.protocol,
        MIN_QUESTIONS_OF_TAG,
        wrong_share,
        MIN_STANDARD_ERRORS**2 * variance,
        MAX_CLUSTERS,
    )
    clusters: list[FailureCluster] = []
    for tag, n_wrong_of_tag, n_of_tag in rows:
        questions = chosen.to(tag=tag, outcome="wrong")
        clusters.append(FailureCluster(tag, n_wrong_of_tag, n_of_tag, questions))
    return tuple(clusters)


def _failures_by_reading(
    library: RunLibrary, run: ShownRun, chosen: QuestionFilter
) -> tuple[FailureCluster, ...]:
    """Group questions of a run that have the same outcome by what was read from their replies.

    For a wrong answer that is the option or text that the reply gives, and for an unparsed reply or an error the
    reason.

    Args:
        library: The index of the runs.
        run: The run.
        chosen: A filter for the run, the protocol and the outcome.

    Returns:
        A cluster for each of the most frequent values, the largest first.
    """
    rows: Sequence[tuple[str, int]] = library.rows(
        "SELECT reading, count(*) AS n FROM entry WHERE run = ? AND protocol = ? AND outcome = ? "
        "GROUP BY reading ORDER BY n DESC, reading LIMIT ?",
        run.id,
        chosen.protocol,
        OUTCOMES.index(chosen.outcome),
        MAX_CLUSTERS,
    )
    clusters: list[FailureCluster] = []
    for reading, count in rows:
        description = reading or "(nothing)"
        questions = chosen.to(reading=reading)
        clusters.append(FailureCluster(description, count, None, questions))
    return tuple(clusters)


# --- by how their images look --------------------------------------------------------------------------------------


MAX_CLUSTERED_QUESTIONS = 2_000
"""The greatest number of questions whose images are compared: the first ones of the run."""
QUESTIONS_PER_CLUSTER = 12
"""The approximate number of questions of a cluster."""
KMEANS_ROUNDS = 20


class ImageQuestion(Struct, frozen=True):
    """A question about an image, and whether a model answered it wrongly."""

    digest: str
    """Digest of the image."""
    address: str
    """URL of the page of the question."""
    is_wrong: bool


class SimilarImagesCluster(Struct, frozen=True):
    """Questions about images that look alike."""

    questions: tuple[ImageQuestion, ...]

    @property
    def wrong(self) -> int:
        return sum(question.is_wrong for question in self.questions)


def failures_by_image_similarity(
    library: RunLibrary, run: ShownRun, protocol: str
) -> list[SimilarImagesCluster]:
    """Find groups of similar images on which a model makes significantly more mistakes than on other images.

    The first questions of the run are clustered by how their images look. A cluster is kept if it has more wrong
    answers than expected from the share over all these questions, by more than `MIN_STANDARD_ERRORS` standard errors.

    Args:
        library: The index of the runs.
        run: The run.
        protocol: The protocol under which the questions were asked.

    Returns:
        The clusters, those with the most unexpected wrong answers first. In each, wrongly answered questions come
        first. The list is empty if the run has too few questions with images.
    """
    questions = _questions_with_images(library, run, protocol)
    if len(questions) < 2 * QUESTIONS_PER_CLUSTER:
        return []
    images = [_image_bytes(library, question.digest) for question in questions]
    n_clusters = len(questions) // QUESTIONS_PER_CLUSTER
    n_wrong = sum(question.is_wrong for question in questions)
    wrong_share = n_wrong / len(questions)

    excess_and_cluster: list[tuple[float, SimilarImagesCluster]] = []
    for indexes in _cluster_vectors(image_descriptors(images), n_clusters):
        members = [questions[index] for index in indexes]
        members.sort(key=lambda question: not question.is_wrong)
        cluster = SimilarImagesCluster(tuple(members))
        excess = cluster.wrong - wrong_share * len(members)
        standard_error = (len(members) * wrong_share * (1 - wrong_share)) ** 0.5
        if excess > MIN_STANDARD_ERRORS * standard_error:
            excess_and_cluster.append((excess, cluster))
    excess_and_cluster.sort(key=lambda pair: -pair[0])
    return [cluster for _, cluster in excess_and_cluster]


def _questions_with_images(
    library: RunLibrary, run: ShownRun, protocol: str
) -> list[ImageQuestion]:
    """Return the first questions of a run with an image under a protocol, and whether their answers were wrong."""
    chosen = QuestionFilter(run=run.name, protocol=protocol)
    rows = library.rows(
        "SELECT benchmark, sample_id, turn, build, outcome, sample FROM entry JOIN question ON question.id = question "
        f"JOIN question_record USING (question) WHERE run = ? AND protocol = ? AND outcome IN ({RIGHT}, {WRONG}, "
        f"{UNPARSED}) ORDER BY benchmark, place, turn LIMIT ?",
        run.id,
        protocol,
        MAX_CLUSTERED_QUESTIONS,
    )
    questions = []
    for benchmark, sample_id, turn, build, outcome, encoded_sample in rows:
        sample = msgspec.json.decode(encoded_sample, type=Sample)
        if sample.images:
            address = chosen.question_address(benchmark, sample_id, turn, build)
            is_wrong = outcome != RIGHT
            questions.append(ImageQuestion(sample.images[0].digest, address, is_wrong))
    return questions


def _image_bytes(library: RunLibrary, digest: str) -> bytes:
    """Read the file of an image from the folder of a benchmark that has it, given the digest of the image."""
    folder, image = find_image(library, digest)
    return ImageStore(folder / "images").read(image)


def _cluster_vectors(vectors: np.ndarray, count: int) -> list[Sequence[int]]:
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
    for _ in range(KMEANS_ROUNDS):
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
