# A model
from snellen.common.images import Images as Images
from snellen.models.base import ALL_KINDS as ALL_KINDS
from snellen.models.base import AsyncModel as AsyncModel
from snellen.models.base import AsyncStreamingModel as AsyncStreamingModel
from snellen.models.base import Model as Model
from snellen.models.base import ReplyListener as ReplyListener
from snellen.models.base import StreamingModel as StreamingModel
from snellen.models.identity import identity_of as identity_of
from snellen.models.model_strings import ModelSpec as ModelSpec
from snellen.models.options import read_options as read_options
from snellen.records import EVALUATED as EVALUATED
from snellen.records import Failure as Failure
from snellen.records import ImagePart as ImagePart
from snellen.records import ImageRef as ImageRef
from snellen.records import RequestKind as RequestKind
from snellen.records import Message as Message
from snellen.records import TextPart as TextPart
from snellen.records import Usage as Usage

# A service
from snellen.models.client import ClientOptions as ClientOptions
from snellen.models.connections import HttpReply as HttpReply
from snellen.models.model_strings import model_string as model_string
from snellen.models.provider import AskedModel as AskedModel
from snellen.models.provider import Provider as Provider
from snellen.models.server_faults import ReportedError as ReportedError
from snellen.models.server_faults import ServerFault as ServerFault

# A protocol
from snellen.common.seeds import rng_for as rng_for
from snellen.protocols.base import Conclusion as Conclusion
from snellen.protocols.base import Declaration as Declaration
from snellen.protocols.base import Protocol as Protocol
from snellen.protocols.base import ProtocolSettings as ProtocolSettings
from snellen.protocols.base import RequestGenerator as RequestGenerator
from snellen.protocols.prompts.rendering import LabelStyle as LabelStyle
from snellen.protocols.prompts.rendering import PromptRenderer as PromptRenderer
from snellen.protocols.prompts.rendering import labels_for as labels_for
from snellen.records import Method as Method
from snellen.records import Step as Step
from snellen.records import Turn as Turn
from snellen.records import Variant as Variant

# A metric
from snellen.metrics.captions import CorpusScore as CorpusScore
from snellen.metrics.declaration import ChoiceMetric as ChoiceMetric
from snellen.metrics.declaration import CorpusCountMetric as CorpusCountMetric
from snellen.metrics.declaration import CorpusMetric as CorpusMetric
from snellen.metrics.declaration import Metric as Metric
from snellen.metrics.declaration import MetricRow as MetricRow
from snellen.metrics.declaration import ReplyMetric as ReplyMetric
from snellen.metrics.declaration import corpus_metric as corpus_metric
from snellen.metrics.declaration import metric_row as metric_row
from snellen.metrics.declaration import reply_metric as reply_metric
from snellen.metrics.normalise import legacy_ocr_normalise as legacy_ocr_normalise
from snellen.metrics.normalise import standard_normalise as standard_normalise
from snellen.metrics.normalise import vqa_normalise as vqa_normalise
from snellen.metrics.question_counts import QuestionCounts as QuestionCounts
from snellen.metrics.questions import AskedQuestion as AskedQuestion
from snellen.metrics.questions import Unscored as Unscored
from snellen.metrics.scoring_context import MetricScores as MetricScores
from snellen.metrics.scoring_context import ScoringContext as ScoringContext
from snellen.records import Answer as Answer
from snellen.records import Prediction as Prediction

# A reader
from snellen.common.drafts import DistractorSpec as DistractorSpec
from snellen.common.drafts import Draft as Draft
from snellen.common.drafts import Exclusion as Exclusion
from snellen.common.drafts import ClipFrame as ClipFrame
from snellen.common.drafts import LazyFrames as LazyFrames
from snellen.common.drafts import LazyImage as LazyImage
from snellen.common.drafts import Outline as Outline
from snellen.common.drafts import ImageSpec as ImageSpec
from snellen.common.drafts import QuestionDraft as QuestionDraft
from snellen.common.drafts import read_params as read_params
from snellen.formats.delimited import open_text as open_text
from snellen.formats.json_files import json_lines as json_lines
from snellen.formats.json_files import read_json as read_json
from snellen.formats.locate import locate_file as locate_file
from snellen.records import Box as Box
from snellen.records import Region as Region

# A type of question, a source of distractors
from snellen.common.drafts import AnnotatedImage as AnnotatedImage
from snellen.common.drafts import AnnotatedObject as AnnotatedObject
from snellen.readers.question_types import AnnotatedSource as AnnotatedSource
from snellen.readers.question_types import FormedQuestion as FormedQuestion
from snellen.readers.question_types import QuestionType as QuestionType
from snellen.readers.question_types import choice_question as choice_question
from snellen.reformulation.distractor_sources import DistractorRanking as DistractorRanking
from snellen.reformulation.distractor_sources import SourceContext as SourceContext

# A suite
from snellen.catalogue.entries import BenchmarkSpec as BenchmarkSpec
from snellen.catalogue.entries import SourceSpec as SourceSpec
from snellen.protocols.prompts.templates import PromptTemplates as PromptTemplates
from snellen.protocols.prompts.templates import packaged_templates as packaged_templates

# How replies are read
from snellen.extraction import find_extractor as find_extractor
from snellen.extraction import named_extractors as named_extractors
from snellen.extraction.standard import read_choice as read_choice
from snellen.extraction.reading import ExtractedChoice as ExtractedChoice
from snellen.extraction.reading import NamedExtractor as NamedExtractor
from snellen.extraction.reading import no_choice as no_choice
from snellen.protocols.prompts.role_prompts import JudgePrompt as JudgePrompt

# Files of runs, trackers
from snellen.catalogue.suites import PredictionForm as PredictionForm
from snellen.catalogue.suites import SubmissionWriter as SubmissionWriter
from snellen.catalogue.suites import WrittenSubmission as WrittenSubmission
from snellen.interchange.exports.base import ExportJob as ExportJob
from snellen.interchange.exports.base import Exporter as Exporter
from snellen.interchange.exports.packing import pack_runs as pack_runs
from snellen.interchange.exports.trackers import TrackedRun as TrackedRun
from snellen.interchange.exports.trackers import Tracker as Tracker
from snellen.interchange.predictions.joining import PlacedRow as PlacedRow
from snellen.interchange.predictions.writing import write_predictions as write_predictions
from snellen.interchange.predictions.rows import PredictedRow as PredictedRow
from snellen.interchange.predictions.rows import PredictionFile as PredictionFile
from snellen.interchange.predictions.rows import places_of as places_of
from snellen.interchange.publishing import pack_predictions as pack_predictions
from snellen.records import Exchange as Exchange
from snellen.runs.finding import find_benchmarks as find_benchmarks
from snellen.runs.journal import read_exchanges as read_exchanges
from snellen.runs.run_folder import journals as journals
from snellen.runs.run_folder import read_manifest as read_manifest
from snellen.runs.run_folder import runs_in as runs_in

# Checks of questions
from snellen.building.benchmark import ErrorBound as ErrorBound
from snellen.building.benchmark import Verification as Verification
from snellen.records import ItemDecision as ItemDecision
from snellen.verification.looks import SURFACE_FEATURES as SURFACE_FEATURES
from snellen.verification.looks import hits_p_value as hits_p_value
from snellen.verification.questions import LintMaterial as LintMaterial
from snellen.verification.questions import LintQuestion as LintQuestion
from snellen.verification.questions import fold_text as fold_text
from snellen.verification.verify import QuestionCheck as QuestionCheck
from snellen.verification.verify import CheckMaterial as CheckMaterial
from snellen.verification.verify import CheckOutcome as CheckOutcome
from snellen.verification.verify import ItemFault as ItemFault
from snellen.verification.verify import Solvers as Solvers

# Replies that people label
from snellen.formats.json_files import add_lines as add_lines
from snellen.protocols.prompts.role_prompts import shortened as shortened
from snellen.scoring.reply_labels import HumanLabel as HumanLabel
from snellen.scoring.reply_labels import LABELS_FILE as LABELS_FILE
from snellen.scoring.reply_labels import LabelItem as LabelItem
from snellen.scoring.reply_labels import NO_OPTION as NO_OPTION
from snellen.scoring.reply_labels import label_items as label_items
from snellen.scoring.reply_labels import read_labels as read_labels
from snellen.scoring.unparsed import UnparsedReply as UnparsedReply

# Judges
from snellen.protocols.verdict import Verdict as Verdict
from snellen.scoring.judges import JudgeEnsemble as JudgeEnsemble
from snellen.scoring.unparsed import stored_readings as stored_readings

# A correction of numbers
from snellen.analysis.corrections import AUDIT_FILE as AUDIT_FILE
from snellen.analysis.corrections import NumberCorrection as NumberCorrection
from snellen.analysis.headline import headline_rows as headline_rows
from snellen.analysis.subset import filter_runs as filter_runs
from snellen.metrics.declaration import AFTER_AUDIT as AFTER_AUDIT
from snellen.metrics.declaration import AS_READ as AS_READ
from snellen.metrics.declaration import metric_of as metric_of
from snellen.records import Score as Score

# Ratings by people
from snellen.scoring.rating_study import RatingStudy as RatingStudy
from snellen.scoring.run_ratings import RunRatings as RunRatings

# Files of questions
from snellen.catalogue.suites import Importer as Importer
from snellen.catalogue.suites import TableForm as TableForm

# Tables of the report
from snellen.records import Estimate as Estimate
from snellen.records import Result as Result
from snellen.report.content import SuiteTables as SuiteTables
from snellen.report.report_section import ReportSection as ReportSection
from snellen.report.reported_runs import ReportedRun as ReportedRun
from snellen.report.table import AbsentCell as AbsentCell
from snellen.report.table import NumberCell as NumberCell
from snellen.report.table import Table as Table

# Verbs
from snellen.cli import Verb as Verb
from snellen.cli.flags import FloatParameter as FloatParameter
from snellen.cli.flags import IntegerParameter as IntegerParameter
from snellen.cli.flags import field_flags as field_flags
from snellen.cli.flags import flags_given as flags_given
from snellen.cli.flags import json_flag as json_flag
from snellen.cli.flags import offline_flag as offline_flag
from snellen.cli.show import announce as announce
from snellen.cli.show import announce_next as announce_next
from snellen.cli.show import command_line as command_line
from snellen.cli.show import console as console
from snellen.cli.show import print_built as print_built
from snellen.cli.show import print_records as print_records
from snellen.cli.show import print_tables as print_tables
from snellen.cli.show import run_progress as run_progress
from snellen.cli.show import show_table as show_table
from snellen.formats.shown_text import csv_table as csv_table
from snellen.formats.shown_text import strip_controls as strip_controls

# Pages that work offline
from snellen.common.decoding import to_plain_file as to_plain_file
from snellen.report.rendering import OfflinePage as OfflinePage

# Pages over runs
from snellen.report.rendering import page_style as page_style
from snellen.report.rendering import template_environment as template_environment
from snellen.viewing.library import RunLibrary as RunLibrary
from snellen.viewing.local_pages import LocalPages as LocalPages
from snellen.viewing.pages import PageOptions as PageOptions
from snellen.viewing.pages import ViewPages as ViewPages
from snellen.viewing.patience import http_protocol as http_protocol
from snellen.viewing.serving import SecurityHeaders as SecurityHeaders
from snellen.viewing.serving import open_listener as open_listener

# Scoring, numbers
from snellen.analysis.aggregate import aggregate_run as aggregate_run
from snellen.analysis.group_spread import group_spread as group_spread
from snellen.analysis.headline import headline_metrics as headline_metrics
from snellen.analysis.intervals import score_interval as score_interval
from snellen.analysis.intervals import unvaried_interval as unvaried_interval
from snellen.analysis.intervals import wilson as wilson
from snellen.analysis.quantiles import student_t as student_t
from snellen.building.benchmark import Benchmark as Benchmark
from snellen.metrics.declaration import declared_row as declared_row
from snellen.runs.own_questions import RunImages as RunImages
from snellen.runs.run_folder import BenchmarkUse as BenchmarkUse
from snellen.scoring.answers import has_answers as has_answers
from snellen.scoring.run_scoring import score_run as score_run
from snellen.scoring.scored_run import ScoredBenchmark as ScoredBenchmark
from snellen.scoring.scored_run import ScoredRun as ScoredRun

# Files, pictures
from snellen.common.decoding import decode_image as decode_image
from snellen.common.decoding import opened_image as opened_image
from snellen.common.drafts import image_bytes as image_bytes
from snellen.common.foreign import open_file as open_file
from snellen.common.foreign import read_file as read_file
from snellen.common.foreign import read_text as read_text
from snellen.common.foreign import regular_file as regular_file
from snellen.common.images import ImageStore as ImageStore
from snellen.common.paths import check_folder_name as check_folder_name
from snellen.formats.json_files import JSON_FAULTS as JSON_FAULTS
from snellen.formats.json_files import kept_lines as kept_lines
from snellen.formats.json_files import read_json_value as read_json_value
from snellen.formats.png import encode_png as encode_png
from snellen.formats.shown_text import guard_formula as guard_formula
from snellen.formats.shown_text import unguard_formula as unguard_formula
from snellen.formats.text_table import TextTable as TextTable
from snellen.formats.text_table import write_text_table as write_text_table
from snellen.formats.whole_files import write_atomically as write_atomically
from snellen.formats.xlsx import read_sheet as read_sheet
from snellen.runs.earlier_answers import write_ahead as write_ahead

# Runs that your package plans
from snellen.common.field_values import check_known as check_known
from snellen.common.record_fields import record_fields as record_fields
from snellen.experiments.evaluation import evaluate_spec as evaluate_spec
from snellen.experiments.outcome_checks import check_budget as check_budget
from snellen.experiments.scored_folders import as_scored_last as as_scored_last
from snellen.experiments.scored_folders import score_folders as score_folders
from snellen.models.model_strings import as_model_string as as_model_string
from snellen.runs.finding import Announce as Announce
from snellen.runs.finding import announce_nothing as announce_nothing
from snellen.runs.finding import matching_specs as matching_specs
from snellen.runs.run_folder import RUN_MANIFEST as RUN_MANIFEST
from snellen.runs.run_progress import ProgressListener as ProgressListener
from snellen.runs.runner import RunOutcome as RunOutcome
from snellen.runs.spec import ExecutionSpec as ExecutionSpec
from snellen.runs.spec import QuestionSpec as QuestionSpec
from snellen.runs.spec import RUN_FIELDS as RUN_FIELDS
from snellen.runs.spec import RunSpec as RunSpec
from snellen.experiments.successive_runs import SuccessiveRuns as SuccessiveRuns
from snellen.runs.spec import judge_spec as judge_spec
from snellen.runs.spec import overlaid as overlaid
from snellen.runs.spec import run_spec as run_spec

# Benchmarks that your package builds
from snellen.building.benchmark import BenchmarkManifest as BenchmarkManifest
from snellen.building.builder import build_benchmark as build_benchmark
from snellen.building.recipe import BuildInputs as BuildInputs
from snellen.experiments.benchmark_variants import build_variant as build_variant
from snellen.experiments.benchmark_variants import build_missing as build_missing
from snellen.common.paths import snellen_home as snellen_home
from snellen.common.paths import slug as slug
from snellen.reformulation.sampling import Sampling as Sampling
from snellen.reformulation.sampling import SamplingRule as SamplingRule
from snellen.runs.finding import open_benchmark as open_benchmark
from snellen.scoring.answers import open_answers as open_answers
from snellen.scoring.resampling import draw_subset as draw_subset
from snellen.scoring.resampling import stratum_of as stratum_of

# The catalogue
from snellen.catalogue.cards import ModelCard as ModelCard
from snellen.catalogue.cards import benchmarks_seen as benchmarks_seen
from snellen.catalogue.cards import model_cards as model_cards
from snellen.catalogue.loading import entries as entries
from snellen.catalogue.loading import entry_folder as entry_folder
from snellen.catalogue.loading import suite_facts as suite_facts
from snellen.catalogue.loading import suite_folders as suite_folders

# Declared files
from snellen.catalogue.loading import declared_file as declared_file
from snellen.catalogue.loading import declared_files as declared_files
from snellen.common.faults import check_names as check_names
from snellen.common.faults import names_of as names_of
from snellen.formats.json_files import parse_toml as parse_toml
from snellen.formats.json_files import read_toml as read_toml
from snellen.registry import find_registered as find_registered
from snellen.registry import unknown_name as unknown_name

# Pages and charts of your own
from snellen.common.late import data_frame as data_frame
from snellen.formats.whole_files import write_in_form as write_in_form
from snellen.report.axes import ChartAxis as ChartAxis
from snellen.report.axes import PlotPoint as PlotPoint
from snellen.report.content import ShownItem as ShownItem
from snellen.report.drawing import ChartDrawing as ChartDrawing
from snellen.report.drawing import ChartPanel as ChartPanel
from snellen.report.drawing import DrawingBuilder as DrawingBuilder
from snellen.report.document import Document as Document
from snellen.report.example_questions import example_questions as example_questions
from snellen.report.heat_map import heat_map as heat_map
from snellen.report.interval_chart import IntervalRow as IntervalRow
from snellen.report.interval_chart import interval_chart as interval_chart
from snellen.report.markdown import markdown_tables as markdown_tables
from snellen.report.figure_files import chart_svg as chart_svg
from snellen.report.radar_chart import radar_chart as radar_chart
from snellen.report.scatter_chart import ScatterPoint as ScatterPoint
from snellen.report.scatter_chart import scatter_chart as scatter_chart

# Cells and texts
from snellen.analysis.coverage import few_names as few_names
from snellen.formats.shown_text import short_name as short_name
from snellen.report.table import Cell as Cell
from snellen.report.number_text import decimal_text as decimal_text
from snellen.report.number_text import interval_text as interval_text
from snellen.report.number_text import percent_text as percent_text
from snellen.report.number_text import value_text as value_text

# Rows of a run
from snellen.analysis.choice_values import scored_predictions as scored_predictions
from snellen.analysis.dose_response import dose_responses as dose_responses
from snellen.analysis.headline import OVERALL as OVERALL
from snellen.analysis.headline import first_text_metric as first_text_metric
from snellen.analysis.headline import headline_metric as headline_metric
from snellen.analysis.headline import protocol_preference as protocol_preference
from snellen.analysis.paired.differences import question_values as question_values
from snellen.metrics.declaration import SHARE as SHARE
from snellen.metrics.declaration import SummedMetric as SummedMetric
from snellen.metrics.declaration import find_metric as find_metric
from snellen.metrics.declaration import metric_with as metric_with
from snellen.metrics.declaration import unit_multiplier as unit_multiplier
from snellen.protocols.base import labelled_declaration as labelled_declaration
from snellen.records import Better as Better
from snellen.report.control_tables import control_tables as control_tables
from snellen.report.pooled_estimates import accuracy_by_template as accuracy_by_template
from snellen.report.pooled_estimates import by_option_position as by_option_position
from snellen.report.reported_runs import ModelMethodRow as ModelMethodRow
from snellen.report.reported_runs import mean_chance as mean_chance
from snellen.report.reported_runs import prepare_reported_runs as prepare_reported_runs
from snellen.scoring.scored_run import run_labels as run_labels

# Why two numbers differ
from snellen.analysis.reconciling import reconcile as reconcile
from snellen.interchange.reconciled_sources import side_of_file as side_of_file

# Statistics
from snellen.analysis.combined_estimates import mean_of_estimates as mean_of_estimates
from snellen.analysis.group_means import estimate_mean as estimate_mean
from snellen.analysis.linearisation import gradient_of as gradient_of
from snellen.analysis.linearisation import linear_estimate as linear_estimate
from snellen.analysis.ranks import competition_ranks as competition_ranks
from snellen.analysis.ranks import fractional_ranks as fractional_ranks

# A procedure that chooses its own questions
from snellen.building.benchmark import ChosenPart as ChosenPart
from snellen.experiments.adaptive_run import adaptive_runs as adaptive_runs
from snellen.report.adaptive_procedures import AdaptiveComparison as AdaptiveComparison
from snellen.report.adaptive_procedures import AdaptiveProcedure as AdaptiveProcedure
from snellen.experiments.adaptive_run import AdaptiveRun as AdaptiveRun

# What packages bring
from snellen.installation import entry_points_of as entry_points_of
from snellen.registry import load_target as load_target
from snellen.registry import register as register

# Errors
from snellen.errors import MissingExtraError as MissingExtraError
