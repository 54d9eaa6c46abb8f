"""In whose words a run asked a benchmark, and in whose words its judge was asked."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from snellen.catalogue import BenchmarkSpec, published_number_of, suite_of
from snellen.catalogue.published_number import OWN_JUDGE_WORDING, OWN_WORDING
from snellen.errors import SnellenError
from snellen.protocols.base import parse_protocol
from snellen.protocols.prompts.templates import AS_PUBLISHED, SNELLEN, default_templates
from snellen.runs.plan import asks_in_one_wording
from snellen.runs.run_folder import RunManifest


class AskedWording(Struct, frozen=True):
    """Whose prompts a benchmark was asked with."""

    by: Literal["makers", "others", "snellen", "user"]
    text: str
    """For a table: `in the wording of lmms-eval`, or `prompts NAME` for a set of prompts that the user named."""


def asked_wording(manifest: RunManifest, spec: BenchmarkSpec, protocol: str) -> AskedWording | None:
    """Return in whose words a run asked a benchmark under a protocol.

    A user can name a prompt or a set of prompts for a run. Without either, a benchmark is asked in the words of its
    published number if its suite is asked so by default, and otherwise in Snellen's words.

    Args:
        manifest: The manifest of the run.
        spec: The benchmark.
        protocol: The label of the protocol.

    Returns:
        Whose words they are; None if that is not known: the replies were imported, or the entry declares nothing about
        its published number.
    """
    if not manifest.question_specs:
        return None
    question = manifest.question_specs[-1]
    if question.prompt:
        return AskedWording("user", "a prompt of the run's own")
    published = published_number_of(spec)
    if published is None:
        return AskedWording("user", f"prompts {question.templates}") if question.templates else None
    own = AskedWording("snellen", f"in {OWN_WORDING}")
    if question.templates == SNELLEN:
        return own
    if question.templates in ("", AS_PUBLISHED):
        is_asked_as_published = question.templates == AS_PUBLISHED or _asks_as_published_by_default(
            manifest, spec, protocol
        )
        if not published.prompt or not is_asked_as_published:
            return own
    elif question.templates != published.prompt:
        return AskedWording("user", f"prompts {question.templates}")
    if published.prompt_by:
        return AskedWording("others", f"in the published wording of {published.prompt_by}")
    return AskedWording("makers", "in the makers' wording")


def _asks_as_published_by_default(
    manifest: RunManifest, spec: BenchmarkSpec, protocol: str
) -> bool:
    """Return whether a run that names no prompts asks a benchmark in the words of its published number."""
    suite = suite_of(spec)
    if suite is None or not suite.published_prompts or spec.templates:
        return False
    if manifest.templates == default_templates().id:
        return False  # a run of an earlier version
    try:
        return asks_in_one_wording(parse_protocol(protocol))
    except SnellenError:
        return False  # a protocol of a package that is not installed


def judge_wording(spec: BenchmarkSpec, metric: str) -> str:
    """Return `Snellen's own judge wording` if a metric's judge is not asked in the published words; else an empty text."""
    published = published_number_of(spec)
    if published is None or published.judge is None or published.judge.metric != metric:
        return ""
    return OWN_JUDGE_WORDING if published.judge_wording == OWN_JUDGE_WORDING else ""
