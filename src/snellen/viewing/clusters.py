"""Failures of a run put together: by tag, by the answer given, by why a reply was not parsed."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.report.gallery import OUTCOMES
from snellen.viewing.filters import QuestionFilter
from snellen.viewing.indexing import RIGHT, UNPARSED, WRONG
from snellen.viewing.library import RunLibrary, ShownRun

MOST_CLUSTERS = 12
FEWEST_QUESTIONS = 5
"""Questions of a tag below which it is no cluster."""
STANDARD_ERRORS = 2.0
"""By how many of them a tag's wrong answers are more than its share."""


class Cluster(Struct, frozen=True):
    """Questions with something in common."""

    words: str
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
        ClusterGroup("tags with clearly more wrong answers than others", _by_tag(library, run, chosen)),
        ClusterGroup("wrong answers given most often", _by_reading(library, run, chosen.to(outcome="wrong"))),
        ClusterGroup("why replies were unparsed", _by_reading(library, run, chosen.to(outcome="unparsed"))),
        ClusterGroup("errors", _by_reading(library, run, chosen.to(outcome="error"))),
    ]
    return [group for group in groups if group.clusters]


def _by_tag(library: RunLibrary, run: ShownRun, chosen: QuestionFilter) -> tuple[Cluster, ...]:
    scored = f"run = ? AND protocol = ? AND outcome IN ({RIGHT}, {WRONG}, {UNPARSED})"
    [(wrong, total)] = library.rows(
        f"SELECT sum(outcome = {WRONG}), count(*) FROM entry WHERE {scored}", run.id, chosen.protocol
    )
    share = (wrong or 0) / (total or 1)
    rows = library.rows(
        f"SELECT tag, sum(outcome = {WRONG}) AS wrong, count(*) AS n FROM entry JOIN tag USING (question) "
        f"WHERE {scored} GROUP BY tag HAVING n >= ? AND wrong > n * ? "
        "AND (wrong - n * ?) * (wrong - n * ?) > ? * n ORDER BY wrong - n * ? DESC LIMIT ?",
        run.id, chosen.protocol, FEWEST_QUESTIONS, share, share, share, STANDARD_ERRORS**2 * share * (1 - share), share,
        MOST_CLUSTERS,
    )  # fmt: skip
    return tuple(Cluster(tag, count, n, chosen.to(tag=tag, outcome="wrong")) for tag, count, n in rows)


def _by_reading(library: RunLibrary, run: ShownRun, chosen: QuestionFilter) -> tuple[Cluster, ...]:
    rows: Sequence[tuple[str, int]] = library.rows(
        "SELECT reading, count(*) AS n FROM entry WHERE run = ? AND protocol = ? AND outcome = ? "
        "GROUP BY reading ORDER BY n DESC, reading LIMIT ?",
        run.id, chosen.protocol, OUTCOMES.index(chosen.outcome), MOST_CLUSTERS,
    )  # fmt: skip
    return tuple(Cluster(reading or "(nothing)", n, None, chosen.to(reading=reading)) for reading, n in rows)
