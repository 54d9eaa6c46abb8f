"""What an author of a model, protocol, metric, reader or suite needs, in one place (docs/extending.md).

A name stays what it is where it is from; this page is what other packages may build on. Nothing is imported before
it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snellen.analyses.observations import Measured as Measured
    from snellen.analyses.statistics import AnalysisRow as AnalysisRow
    from snellen.analyses.statistics import AnalysisStatistic as AnalysisStatistic
    from snellen.analyses.statistics import Member as Member
    from snellen.building.source_counts import SourceCounts as SourceCounts
    from snellen.building.source_counts import count_source as count_source
    from snellen.catalogue.entries import BenchmarkSpec as BenchmarkSpec
    from snellen.catalogue.entries import Expected as Expected
    from snellen.catalogue.entries import SourceSpec as SourceSpec
    from snellen.catalogue.hooks import Importer as Importer
    from snellen.catalogue.hooks import PredictionForm as PredictionForm
    from snellen.catalogue.hooks import Scaffold as Scaffold
    from snellen.catalogue.hooks import ScaffoldedTable as ScaffoldedTable
    from snellen.catalogue.hooks import SubmissionWriter as SubmissionWriter
    from snellen.catalogue.hooks import TableForm as TableForm
    from snellen.catalogue.hooks import WrittenSubmission as WrittenSubmission
    from snellen.catalogue.suites import AsPublished as AsPublished
    from snellen.catalogue.suites import Suite as Suite
    from snellen.drafts import DistractorSpec as DistractorSpec
    from snellen.drafts import Draft as Draft
    from snellen.drafts import ImageFile as ImageFile
    from snellen.drafts import LazyImage as LazyImage
    from snellen.drafts import Outline as Outline
    from snellen.drafts import PictureSpec as PictureSpec
    from snellen.drafts import QuestionDraft as QuestionDraft
    from snellen.drafts import SourceReader as SourceReader
    from snellen.drafts import read_params as read_params
    from snellen.errors import DataError as DataError
    from snellen.errors import MissingExtraError as MissingExtraError
    from snellen.errors import ModelError as ModelError
    from snellen.errors import SnellenError as SnellenError
    from snellen.errors import StoreError as StoreError
    from snellen.errors import UnknownNameError as UnknownNameError
    from snellen.exports.declaration import Exporter as Exporter
    from snellen.exports.declaration import ExportJob as ExportJob
    from snellen.exports.tracking import TrackedMetric as TrackedMetric
    from snellen.exports.tracking import TrackedRun as TrackedRun
    from snellen.exports.tracking import Tracker as Tracker
    from snellen.extraction.reading import ExtractedChoice as ExtractedChoice
    from snellen.extraction.reading import Extractor as Extractor
    from snellen.extraction.reading import NamedExtractor as NamedExtractor
    from snellen.extraction.reading import no_choice as no_choice
    from snellen.formats.delimited import open_text as open_text
    from snellen.formats.json_files import json_lines as json_lines
    from snellen.formats.json_files import read_json as read_json
    from snellen.formats.locate import locate as locate
    from snellen.images import Images as Images
    from snellen.metrics.captions import CorpusScore as CorpusScore
    from snellen.metrics.declaration import ChoiceMetric as ChoiceMetric
    from snellen.metrics.declaration import CorpusMetric as CorpusMetric
    from snellen.metrics.declaration import Metric as Metric
    from snellen.metrics.declaration import MetricRow as MetricRow
    from snellen.metrics.declaration import ReplyMetric as ReplyMetric
    from snellen.metrics.declaration import corpus_metric as corpus_metric
    from snellen.metrics.declaration import metric_row as metric_row
    from snellen.metrics.declaration import reply_metric as reply_metric
    from snellen.metrics.declaration import share as share
    from snellen.metrics.summed import CorpusCountMetric as CorpusCountMetric
    from snellen.models.base import ALL_KINDS as ALL_KINDS
    from snellen.models.base import AsyncModel as AsyncModel
    from snellen.models.base import Model as Model
    from snellen.models.base import ModelSpec as ModelSpec
    from snellen.models.base import model_string as model_string
    from snellen.models.base import read_options as read_options
    from snellen.models.client import ClientOptions as ClientOptions
    from snellen.models.connections import HttpReply as HttpReply
    from snellen.models.faults import ReportedError as ReportedError
    from snellen.models.faults import ServerFault as ServerFault
    from snellen.models.provider import AskedModel as AskedModel
    from snellen.models.provider import Provider as Provider
    from snellen.predictions.rows import PredictedRow as PredictedRow
    from snellen.predictions.rows import PredictionFile as PredictionFile
    from snellen.prompts.judge_prompts import JudgePrompt as JudgePrompt
    from snellen.prompts.option_labels import LabelStyle as LabelStyle
    from snellen.prompts.option_labels import labels_for as labels_for
    from snellen.prompts.rendering import EarlierReply as EarlierReply
    from snellen.prompts.rendering import PromptRenderer as PromptRenderer
    from snellen.prompts.templates import Templates as Templates
    from snellen.prompts.templates import packaged_templates as packaged_templates
    from snellen.protocols.base import Protocol as Protocol
    from snellen.protocols.base import ProtocolSettings as ProtocolSettings
    from snellen.protocols.base import RequestGenerator as RequestGenerator
    from snellen.protocols.declaration import Conclusion as Conclusion
    from snellen.protocols.declaration import Declaration as Declaration
    from snellen.ratings.study import RatingStudy as RatingStudy
    from snellen.ratings.study import read_rating_study as read_rating_study
    from snellen.readers.exclusions import Exclusion as Exclusion
    from snellen.readers.exclusions import without_exclusions as without_exclusions
    from snellen.records import Answer as Answer
    from snellen.records import Box as Box
    from snellen.records import ContinuationScore as ContinuationScore
    from snellen.records import Decoding as Decoding
    from snellen.records import Estimate as Estimate
    from snellen.records import Exchange as Exchange
    from snellen.records import Failure as Failure
    from snellen.records import ImagePart as ImagePart
    from snellen.records import ImageRef as ImageRef
    from snellen.records import Kind as Kind
    from snellen.records import Message as Message
    from snellen.records import Method as Method
    from snellen.records import Prediction as Prediction
    from snellen.records import Region as Region
    from snellen.records import Request as Request
    from snellen.records import Response as Response
    from snellen.records import Result as Result
    from snellen.records import Sample as Sample
    from snellen.records import Step as Step
    from snellen.records import TextPart as TextPart
    from snellen.records import Turn as Turn
    from snellen.records import Usage as Usage
    from snellen.records import Variant as Variant
    from snellen.report.run_view import RunView as RunView
    from snellen.report.suite_tables import SuiteTables as SuiteTables
    from snellen.report.table import AbsentCell as AbsentCell
    from snellen.report.table import NumberCell as NumberCell
    from snellen.report.table import Table as Table
    from snellen.runs.imported_predictions import ImportedPredictions as ImportedPredictions
    from snellen.runs.imported_predictions import check_import as check_import
    from snellen.runs.imported_predictions import imported_run_folder as imported_run_folder
    from snellen.runs.imported_predictions import write_imported_run as write_imported_run
    from snellen.runs.journal import RunManifest as RunManifest
    from snellen.runs.journal import read_exchanges as read_exchanges
    from snellen.runs.journal import read_manifest as read_manifest
    from snellen.runs.plan import find_benchmarks as find_benchmarks
    from snellen.seeds import rng_for as rng_for
    from snellen.studies.series import CellScores as CellScores
    from snellen.studies.series import StudyNumbers as StudyNumbers
    from snellen.studies.series import StudySeries as StudySeries
    from snellen.studies.statistic import StudyPart as StudyPart
    from snellen.studies.statistic import StudyRow as StudyRow
    from snellen.studies.statistic import StudyStatistic as StudyStatistic
    from snellen.studies.statistic import study_row as study_row

_HOMES = {
    "snellen.building.source_counts": ("SourceCounts", "count_source"),
    "snellen.catalogue.entries": ("BenchmarkSpec", "Expected", "SourceSpec"),
    "snellen.catalogue.hooks": (
        "Importer",
        "PredictionForm",
        "Scaffold",
        "ScaffoldedTable",
        "SubmissionWriter",
        "TableForm",
        "WrittenSubmission",
    ),
    "snellen.catalogue.suites": ("AsPublished", "Suite"),
    "snellen.drafts": (
        "DistractorSpec",
        "Draft",
        "ImageFile",
        "LazyImage",
        "Outline",
        "PictureSpec",
        "QuestionDraft",
        "SourceReader",
        "read_params",
    ),
    "snellen.errors": (
        "DataError",
        "MissingExtraError",
        "ModelError",
        "SnellenError",
        "StoreError",
        "UnknownNameError",
    ),
    "snellen.exports.declaration": ("ExportJob", "Exporter"),
    "snellen.exports.tracking": ("TrackedMetric", "TrackedRun", "Tracker"),
    "snellen.extraction.reading": ("ExtractedChoice", "Extractor", "NamedExtractor", "no_choice"),
    "snellen.formats.delimited": ("open_text",),
    "snellen.formats.json_files": ("json_lines", "read_json"),
    "snellen.formats.locate": ("locate",),
    "snellen.images": ("Images",),
    "snellen.metrics.captions": ("CorpusScore",),
    "snellen.metrics.declaration": (
        "ChoiceMetric",
        "CorpusMetric",
        "Metric",
        "MetricRow",
        "ReplyMetric",
        "corpus_metric",
        "metric_row",
        "reply_metric",
        "share",
    ),
    "snellen.metrics.summed": ("CorpusCountMetric",),
    "snellen.models.base": ("ALL_KINDS", "AsyncModel", "Model", "ModelSpec", "model_string", "read_options"),
    "snellen.models.client": ("ClientOptions",),
    "snellen.models.connections": ("HttpReply",),
    "snellen.models.faults": ("ReportedError", "ServerFault"),
    "snellen.models.provider": ("AskedModel", "Provider"),
    "snellen.predictions.rows": ("PredictedRow", "PredictionFile"),
    "snellen.prompts.judge_prompts": ("JudgePrompt",),
    "snellen.prompts.templates": ("Templates", "packaged_templates"),
    "snellen.prompts.option_labels": ("LabelStyle", "labels_for"),
    "snellen.prompts.rendering": ("EarlierReply", "PromptRenderer"),
    "snellen.protocols.base": ("Protocol", "ProtocolSettings", "RequestGenerator"),
    "snellen.protocols.declaration": ("Conclusion", "Declaration"),
    "snellen.ratings.study": ("RatingStudy", "read_rating_study"),
    "snellen.readers.exclusions": ("Exclusion", "without_exclusions"),
    "snellen.records": (
        "Answer",
        "Box",
        "ContinuationScore",
        "Decoding",
        "Estimate",
        "Exchange",
        "Failure",
        "ImagePart",
        "ImageRef",
        "Kind",
        "Message",
        "Method",
        "Prediction",
        "Region",
        "Request",
        "Response",
        "Result",
        "Sample",
        "Step",
        "TextPart",
        "Turn",
        "Usage",
        "Variant",
    ),
    "snellen.report.run_view": ("RunView",),
    "snellen.report.suite_tables": ("SuiteTables",),
    "snellen.report.table": ("AbsentCell", "NumberCell", "Table"),
    "snellen.runs.imported_predictions": (
        "ImportedPredictions",
        "check_import",
        "imported_run_folder",
        "write_imported_run",
    ),
    "snellen.runs.journal": ("RunManifest", "read_exchanges", "read_manifest"),
    "snellen.runs.plan": ("find_benchmarks",),
    "snellen.seeds": ("rng_for",),
    "snellen.analyses.observations": ("Measured",),
    "snellen.analyses.statistics": ("AnalysisRow", "AnalysisStatistic", "Member"),
    "snellen.studies.series": ("CellScores", "StudyNumbers", "StudySeries"),
    "snellen.studies.statistic": ("StudyPart", "StudyRow", "StudyStatistic", "study_row"),
}
_WHERE = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    """A name is imported when first used. Raises AttributeError for one that is not here."""
    if name not in _WHERE:
        raise AttributeError(f"module 'snellen.extending' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return __all__
