"""The feature `leaderboard`, declared."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from snellen_server.hosting.configuration import Configuration
from snellen_server.hosting.features import Collector, Feature, HealthCheck, Job, NavigationEntry, PersonalData
from snellen_server.hosting.limits import RateLimit
from snellen_server.leaderboard.boards import NAME, LeaderboardSettings, boards_fault
from snellen_server.leaderboard.entries import submission
from snellen_server.leaderboard.jobs import SCORE_SUBMISSIONS, score_waiting
from snellen_server.leaderboard.routes import API_BOARDS, PAGES, SUBMIT, UPLOADS, router
from snellen_server.leaderboard.standings import shown_number
from snellen_server.leaderboard.summary import summarised_boards

FORM_BYTES = 64 * 1024
"""What a form adds to the file in it."""


def _upload_bytes(configuration: Configuration) -> Mapping[str, int]:
    settings = msgspec.convert(configuration.feature.get(NAME, {}), LeaderboardSettings)
    return dict.fromkeys((f"{PAGES}/", f"{API_BOARDS}/"), settings.upload_bytes + FORM_BYTES)


FEATURE = Feature(
    name=NAME,
    title="Leaderboard",
    router=router,
    package="snellen_server.leaderboard",
    migrations="snellen_server.leaderboard.migrations",
    tables=(submission,),
    settings=LeaderboardSettings,
    navigation=(NavigationEntry("Leaderboard", PAGES),),
    jobs=(Job(SCORE_SUBMISSIONS, 60, score_waiting),),
    metrics=(
        Collector("snellen_submissions", "Submissions to the leaderboard by what came of them", labels=("outcome",)),
    ),
    health_checks=(HealthCheck("leaderboard", boards_fault),),
    limits=(RateLimit(UPLOADS, "20/hour", "60/hour"),),
    scopes={SUBMIT: "submit predictions to the leaderboard"},
    body_bytes=_upload_bytes,
    personal=(PersonalData(submission, "account_id"),),
    home=summarised_boards,
    template_values={"shown_number": shown_number},
)
