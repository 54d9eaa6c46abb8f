"""Names and their targets: strings here, imported when used, extensible by other packages.

Another package adds a name by an entry point in the group `snellen.GROUP`, for a group listed in `Group`, with the
value `module:attribute`, as below. The less obvious groups are

- `snellen.metrics`: a declared metric (`snellen.metrics.declaration`), or a plain function
  `metric(reply, references) -> float`
- `snellen.model_identities`: by scheme, `identity(spec) -> str`, the model string without how the model is reached
- `snellen.model_checks`: by scheme, `check(spec)`, which raises SnellenError for a string that cannot name a model
- `snellen.transforms`: applied to texts in templates of the reader `mapped`, `transform(texts) -> texts`
- `snellen.checks`: a declared check of a benchmark's questions, one by one (`snellen.verification.verify`)
- `snellen.exporters`: a declared form in which runs are written (`snellen.interchange.exports.base`)
- `snellen.trackers`: a declared experiment tracker (`snellen.interchange.exports.trackers`)
- `snellen.adaptive_procedures`: how runs that chose their own questions are shown (`snellen.report.adaptive_procedures`)
- `snellen.report_sections`: a section of reports (`snellen.report.report_section`)
- `snellen.corrections`: corrects the numbers of a run, a `NumberCorrection` (`snellen.analysis.corrections`)
- `snellen.calibrations`: how well judges agree with people, `calibrate(judges, judge, announce) -> sentences`
- `snellen.packed_files`: the name of a file in the folder of a run that a packed run takes along
- `snellen.benchmark_reports`: what `snellen report BENCHMARK` writes (`snellen.cli.verbs.results.BenchmarkReport`)
- `snellen.listings`: what `snellen list NAME` shows, `listing() -> (header, rows)`
- `snellen.acuity_tests`: a declared psychometric test (`snellen_lab.AcuityTest`)
- `snellen.suites`: packages with a `suite.toml`, which adds benchmarks and, in its `hooks`, further names
  (docs/suites.md)
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from snellen.callers import for_caller
from snellen.errors import (
    DataError,
    HookError,
    SnellenError,
    SuiteWarning,
    UnknownNameError,
    naming_missing_packages,
)
from snellen.installation import LAB, entry_points_of, sibling_install_line
from snellen.own_code import code_hint

SuiteGroup = Literal[
    "extractors",
    "judge_prompts",
    "matching_prompts",
    "templates",
    "table_forms",
    "submission_forms",
    "prediction_forms",
    "importers",
    "report_tables",
    "rating_studies",
    "study_statistics",
    "analysis_statistics",
    "analysis_measures",
    "acuity_tests",
]
"""What suites bring; `snellen.catalogue.suites` has the type of each."""
Group = (
    Literal[
        "models",
        "model_identities",
        "model_checks",
        "instruments",
        "adaptive_procedures",
        "benchmark_reports",
        "calibrations",
        "corrections",
        "listings",
        "packed_files",
        "report_sections",
        "suites",
        "metrics",
        "protocols",
    ]
    | Literal["readers", "question_types", "distractor_sources", "transforms"]
    | Literal["exporters", "trackers", "checks"]
    | SuiteGroup
)

_NAMES: dict[Group, dict[str, Any]] = {
    "models": {
        "anthropic": "snellen.models.services:ANTHROPIC",
        "azure": "snellen.models.openai:open_azure",
        "bedrock": "snellen.models.services:BEDROCK",
        "clip": "snellen.models.clip:open_clip",
        "gemini": "snellen.models.services:GEMINI",
        "hf": "snellen.models.hf:open_hf",
        "ocr": "snellen.models.ocr:open_ocr",
        "openai": "snellen.models.openai:open_openai",
        "replay": "snellen.runs.earlier_answers:open_replay",
        "snellen": "snellen.models.embedded:open_embedded",
        "vertex": "snellen.models.services:VERTEX",
        "vllm": "snellen.models.vllm:open_vllm",
    },
    # By scheme of a model string, for models that can be reached in several ways: `snellen.models.identity.identifying_string`.
    "model_identities": {
        "anthropic": "snellen.models.client:identity_of_service",
        "azure": "snellen.models.openai_places:identity_of_deployment",
        "bedrock": "snellen.models.client:identity_of_service",
        "gemini": "snellen.models.client:identity_of_service",
        "openai": "snellen.models.openai_places:identity_of_string",
        "vertex": "snellen.models.client:identity_of_service",
    },
    # By scheme of a model string, what can be told of it before anything is built, fetched or loaded.
    "model_checks": {
        "hf": "snellen.models.model_strings:locate_checkpoint",
        "snellen": "snellen.models.embedded:check_name",
    },
    # Types of questions that are made from annotations: `snellen.readers.question_types`.
    "question_types": {
        "class": "snellen.readers.question_types:ClassQuestions",
        "attribute": "snellen.readers.question_types:AttributeQuestions",
        "presence": "snellen.readers.text_questions:PresenceQuestions",
        "count": "snellen.readers.text_questions:CountQuestions",
        "object-class": "snellen.readers.text_questions:ObjectClassQuestions",
        "location": "snellen.readers.question_types:LocationQuestions",
        "spatial": "snellen.readers.question_types:SpatialQuestions",
        "size": "snellen.readers.question_types:SizeQuestions",
        "relation": "snellen.readers.question_types:RelationQuestions",
        "caption": "snellen.readers.text_questions:CaptionQuestions",
        "match": "snellen.readers.text_questions:MatchQuestions",
        "answer": "snellen.readers.text_questions:AnswerQuestions",
        "dialogue": "snellen.readers.text_questions:DialogueQuestions",
        "text": "snellen.readers.text_questions:TextQuestions",
        "key": "snellen.readers.text_questions:KeyQuestions",
    },
    # Where distractors come from: `snellen.reformulation.distractor_sources`.
    "distractor_sources": {
        "pool": "snellen.reformulation.distractor_sources:pool",
        "random": "snellen.reformulation.distractor_sources:random_answers",
        "wordnet": "snellen.reformulation.distractor_sources:wordnet_neighbours",
        "near-text": "snellen.reformulation.near_distractors:near_text",
        "near-image": "snellen.reformulation.near_distractors:near_image",
        "near-meaning": "snellen.reformulation.near_meaning:near_meaning",
        "written": "snellen.reformulation.distractor_sources:pool",
    },
    "readers": {
        "annotations": "snellen.readers.annotations:read",
        "mapped": "snellen.readers.mapped:read",
        "hub-rows": "snellen.readers.mapped:read_hub_rows",
        "hub-boxes": "snellen.readers.boxes:read",
        "hub-classes": "snellen.readers.classes:read_hub_classes",
        "built": "snellen.scoring.resampling:read",
        "predictions": "snellen.interchange.predictions.own_questions:read",
        "reasked": "snellen.readers.reasked:read",
        "classes": "snellen.readers.classes:read",
        "dialogues": "snellen.readers.reasked:read_as_dialogues",
        "exported": "snellen.readers.exported:read",
        "key-information": "snellen.readers.key_information:read",
        "object-presence": "snellen.readers.object_presence:read",
        "conversations": "snellen.readers.conversations:read",
        "table": "snellen.readers.table:read",
        "text-boxes": "snellen.readers.text_boxes:read",
        "text-crops": "snellen.readers.text_boxes:read_crops",
    },
    # Transforms of a field in templates of the reader `mapped`.
    "transforms": {
        "strip": "snellen.readers.mapped.transforms:strip",
        "lower": "snellen.readers.mapped.transforms:lower",
        "stem": "snellen.readers.mapped.transforms:stem",
        "name": "snellen.readers.mapped.transforms:name",
        "suffix": "snellen.readers.mapped.transforms:suffix",
        "without_jpg": "snellen.readers.mapped.transforms:without_jpg",
        "png": "snellen.readers.mapped.transforms:png",
        "sentence": "snellen.readers.mapped.transforms:sentence",
        "plain": "snellen.readers.mapped.transforms:plain",
        "spaced": "snellen.readers.mapped.transforms:spaced",
        "yes_no": "snellen.readers.mapped.transforms:yes_no",
        "votes": "snellen.readers.mapped.transforms:votes",
        "filled": "snellen.readers.mapped.transforms:filled",
        "unstopped": "snellen.readers.mapped.transforms:unstopped",
        "first": "snellen.readers.mapped.transforms:first",
        "readable": "snellen.readers.mapped.transforms:readable",
        "available": "snellen.readers.mapped.transforms:available",
        "worded": "snellen.readers.mapped.transforms:worded",
        "literal": "snellen.readers.mapped.transforms:literal",
        "letter": "snellen.readers.mapped.transforms:letter",
        "comma": "snellen.readers.mapped.transforms:comma",
        "unlabelled": "snellen.readers.mapped.transforms:unlabelled",
        "half": "snellen.readers.mapped.transforms:half",
        "parity": "snellen.readers.mapped.transforms:parity",
    },
    "protocols": {
        "vanilla": "snellen.protocols.choice:Vanilla",
        "circular": "snellen.protocols.choice:Circular",
        "instability": "snellen.protocols.choice:Instability",
        "likelihood": "snellen.protocols.choice:Likelihood",
        "dialogue": "snellen.protocols.choice:Dialogue",
        "blind": "snellen.protocols.choice:Blind",
        "control": "snellen.protocols.wrapping:Control",
        "perturb": "snellen.protocols.wrapping:Perturb",
        "reasoning": "snellen.protocols.reasoning:Reasoning",
        "repeat": "snellen.protocols.wrapping:Repeat",
    },
    # What each is computed over, and its rows, it declares itself: `snellen.metrics.declaration`.
    "metrics": {
        "accuracy": "snellen.scoring.choice_metrics:ACCURACY",
        "circular_accuracy": "snellen.scoring.choice_metrics:CIRCULAR_ACCURACY",
        "circular_drop": "snellen.scoring.choice_metrics:CIRCULAR_DROP",
        "consistency": "snellen.scoring.choice_metrics:CONSISTENCY",
        "instability": "snellen.scoring.choice_metrics:INSTABILITY",
        "legacy_instability": "snellen.scoring.choice_metrics:LEGACY_INSTABILITY",
        "hit_rate": "snellen.scoring.choice_metrics:HIT_RATE",
        "tie_rate": "snellen.scoring.choice_metrics:TIE_RATE",
        "repeats": "snellen.scoring.choice_metrics:REPEATS",
        "unparsed_rate": "snellen.scoring.choice_metrics:UNPARSED_RATE",
        "unsure_rate": "snellen.scoring.choice_metrics:UNSURE_RATE",
        "talk_cost": "snellen.scoring.request_costs:COST",
        "ranking": "snellen.scoring.ranking:RANKING",
        "word_accuracy": "snellen.metrics.ocr:WORD_ACCURACY",
        "contains_answer": "snellen.metrics.ocr:CONTAINS_ANSWER",
        "exact_match": "snellen.metrics.ocr:EXACT_MATCH",
        "anls": "snellen.metrics.ocr:ANLS",
        "edit_similarity": "snellen.metrics.ocr:EDIT_SIMILARITY",
        "teds": "snellen.metrics.tables:teds",
        "character_error_rate": "snellen.metrics.ocr:CHARACTER_ERROR_RATE",
        "word_error_rate": "snellen.metrics.ocr:WORD_ERROR_RATE",
        "word_f1": "snellen.metrics.kie:WORD_F1",
        "field_exact_match": "snellen.metrics.kie:FIELD_EXACT_MATCH",
        "vqa_accuracy": "snellen.metrics.vqa:VQA_ACCURACY",
        "direct_answer_accuracy": "snellen.metrics.vqa:DIRECT_ANSWER_ACCURACY",
        "gqa_accuracy": "snellen.metrics.vqa:GQA_ACCURACY",
        "typed_match": "snellen.metrics.vqa:TYPED_MATCH",
        "recorded_verdict": "snellen.metrics.recorded:RECORDED_VERDICT",
        "cider": "snellen.metrics.captions:CIDER",
        "rouge_l": "snellen.metrics.captions:ROUGE_L",
        "caption_similarity": "snellen.metrics.captions:CAPTION_SIMILARITY",
        "bleu_1": "snellen.metrics.captions:BLEU_1",
        "bleu_2": "snellen.metrics.captions:BLEU_2",
        "bleu_3": "snellen.metrics.captions:BLEU_3",
        "bleu_4": "snellen.metrics.captions:BLEU_4",
        "meteor": "snellen.metrics.captions:METEOR",
        "pope": "snellen.metrics.hallucination:POPE",
        "chair": "snellen.metrics.hallucination:CHAIR",
        "entity_f1": "snellen.metrics.kie:ENTITY_F1",
        "counting": "snellen.metrics.numbers:COUNTING",
        "relaxed_accuracy": "snellen.metrics.numbers:RELAXED_ACCURACY",
        "number_accuracy": "snellen.metrics.numbers:NUMBER_ACCURACY",
        "math_accuracy": "snellen.metrics.numbers:MATH_ACCURACY",
        "boxes": "snellen.metrics.boxes:BOXES",
        "points": "snellen.metrics.boxes:POINTS",
        "overall_accuracy": "snellen.scoring.grouped:OVERALL_ACCURACY",
        "group_accuracy": "snellen.scoring.grouped:GROUP_ACCURACY",
        "same_question_accuracy": "snellen.scoring.grouped:SAME_QUESTION_ACCURACY",
        "same_image_accuracy": "snellen.scoring.grouped:SAME_IMAGE_ACCURACY",
        "mean_class_accuracy": "snellen.metrics.ocr:MEAN_CLASS_ACCURACY",
        "judged_correct": "snellen.scoring.judged_metrics:CORRECT",
        "judged_caption": "snellen.scoring.judged_metrics:CAPTION",
        "legacy_relaxed_accuracy": "snellen.metrics.numbers:LEGACY_RELAXED_ACCURACY",
        "legacy_anls": "snellen.metrics.ocr:LEGACY_ANLS",
        "legacy_vqa_accuracy": "snellen.metrics.vqa:LEGACY_VQA_ACCURACY",
        "legacy_pope": "snellen.metrics.hallucination:LEGACY_POPE",
        "legacy_counting": "snellen.metrics.numbers:LEGACY_COUNTING",
        "round_trend": "snellen.analysis.linearisation:ROUND_TREND",
        "field_exact_match_macro": "snellen.analysis.linearisation:FIELD_MACRO",
        "template_deviation": "snellen.analysis.template_deviation:TEMPLATE_DEVIATION",
        "headline": "snellen.analysis.headline:HEADLINE_METRIC",
        "question_score": "snellen.scoring.published_means:QUESTION_SCORE_METRIC",
        "published_mean": "snellen.scoring.published_means:PUBLISHED_MEAN_METRIC",
        "capability": "snellen.analysis.capability:CAPABILITY_METRIC",
        "task_capability": "snellen.analysis.capability:TASK_CAPABILITY_METRIC",
        "average_rank": "snellen.analysis.ranks:AVERAGE_RANK_METRIC",
    },
    # Checks of questions one by one, in the order in which they are carried out: `snellen.verification.verify`.
    "checks": {
        "options-alike": "snellen.verification.surface:OPTIONS_ALIKE",
        "answer-told": "snellen.verification.surface:ANSWER_TOLD",
        "repeated": "snellen.verification.surface:REPEATED",
        "cues": "snellen.verification.surface:CUES",
    },
    # Forms in which runs are written for other tools: `snellen.interchange.exports.base`.
    "exporters": {
        "dataset": "snellen.interchange.exports.dataset:EXPORTER",
        "inspect": "snellen.interchange.exports.inspect_log:EXPORTER",
        "lm-eval": "snellen.interchange.exports.harness:LM_EVAL",
        "lmms-eval": "snellen.interchange.exports.harness:LMMS_EVAL",
        "csv": "snellen.interchange.exports.sample_files:CSV",
        "jsonl": "snellen.interchange.exports.sample_files:JSONL",
        "parquet": "snellen.interchange.exports.sample_files:PARQUET",
        "samples": "snellen.interchange.exports.sample_files:SAMPLES",
        "xlsx": "snellen.interchange.exports.sample_files:XLSX",
    },
    # Experiment trackers to which runs are logged: `snellen.interchange.exports.trackers`.
    "trackers": {
        "mlflow": "snellen.interchange.exports.trackers:MLFLOW",
        "trackio": "snellen.interchange.exports.trackers:TRACKIO",
        "wandb": "snellen.interchange.exports.trackers:WANDB",
    },
    # Models of known behaviour that may import more than other models: the oracle reads answers.
    "instruments": {"oracle": "snellen.scoring.oracle:open_oracle"},
    # Packages with a `suite.toml`, whose `hooks` add to the groups above and below.
    "suites": {
        "aro": "snellen.suites.aro",
        "eyechart": "snellen.suites.eyechart",
        "easy-vqa": "snellen.suites.easy_vqa",
        "mmbench": "snellen.suites.mmbench",
        "modern": "snellen.suites.modern",
        "reform-eval": "snellen.suites.reform_eval",
        "lvlm-ehub": "snellen.suites.lvlm_ehub",
        "pope": "snellen.suites.pope",
        "tiny-lvlm-ehub": "snellen.suites.tiny_lvlm_ehub",
        "visdial": "snellen.suites.visdial",
    },
    "extractors": {
        "standard": "snellen.extraction.standard:STANDARD",
        "strict": "snellen.extraction.standard:STRICT",
    },
    "judge_prompts": {},
    "matching_prompts": {"delimited": "snellen.protocols.verdict:DELIMITED"},
    # How questions are asked by the code of their papers, as `snellen.protocols.prompts.templates.PromptTemplates`.
    "templates": {
        "letter": "snellen.protocols.prompts.templates:LETTER",
        "plain": "snellen.protocols.prompts.templates:PLAIN",
    },
    "table_forms": {},
    "submission_forms": {},
    "prediction_forms": {
        "helm": "snellen.interchange.predictions.forms:HELM",
        "inspect": "snellen.interchange.predictions.forms:INSPECT",
        "lmms-eval": "snellen.interchange.predictions.forms:LMMS_EVAL",
    },
    "importers": {},
    "report_tables": {},
    "rating_studies": {},
    "acuity_tests": {},
    "report_sections": {},
    # Names of files in the folder of a run that packing takes along, and that hold no ground truth.
    "packed_files": {
        "audit": "snellen.analysis.corrections:AUDIT_FILE",
        "labels": "snellen.scoring.reply_labels:LABELS_FILE",
    },
    # Functions of a run and its results. Each is called in turn before results are converted to a paper's scale.
    "corrections": {},
    # What `snellen score --judge-calibrate` prints about the judges, so that the user can decide whether to trust them.
    "calibrations": {},
    # What `snellen report BENCHMARK` writes. The command looks for the name `datasheet`.
    "benchmark_reports": {},
    # What `snellen list NAME` shows, besides the lists of the harness.
    "listings": {},
    # By the rule of a `ChosenPart`: `snellen.report.adaptive_procedures`.
    "adaptive_procedures": {},
    # What the package snellen-lab computes over the cells of a study, over the values of an analysis, and on runs.
    "study_statistics": {},
    "analysis_statistics": {},
    "analysis_measures": {},
}
_NAMES_OF_LAB: dict[Group, tuple[str, ...]] = {
    "suites": ("acuity",),
    "readers": ("acuity", "jury"),
    "checks": ("blind", "jury"),
}
"""Names that may occur in files and flags, but exist only if the package snellen-lab is installed."""
FILE_MODULE = "snellen_suite_module:"
"""Code that was loaded from a file is a module whose name is this prefix and the path of the file."""
_TARGETS_OF_SUITES = "snellen.catalogue.loading:hook_targets"
"""Function that returns what suites add to a group.

It is imported late, because suites are found through this registry and import it."""
_CHOSEN_SUITE_FOLDERS = "snellen.catalogue.loading:folders_named"
"""Function that returns the suite folders that the user chose. What suites add changes only if these change."""


def register(group: Group, name: str, target: Any) -> None:
    """Make `name` mean `target` in this process: `module:attribute`, imported when used, or the thing itself."""
    _NAMES[group][name] = target


def names(group: Group) -> list[str]:
    """All names in a group, including those of other packages and of suites."""
    return sorted(targets(group))


def targets(group: Group) -> dict[str, Any]:
    """Return what each name of a group stands for: an object, or the text `module:attribute` of one that is imported
    later.

    Names that were registered in this process come first and take precedence over those of other packages and
    suites.
    """
    own = _NAMES[group]
    # The first `own` decides the order of the names, the last one their targets.
    return {**own, **_targets_of_others(group), **own}


def of_other_packages() -> dict[Group, list[str]]:
    """Return the names that other installed packages add to each group by entry points, in alphabetical order."""
    return {group: sorted(_entry_points(group)) for group in _NAMES}


def key_of_targets(group: Group) -> Hashable:
    """Return a value that changes whenever the result of `targets(group)` does.

    It costs less than `targets` and can be hashed, so it serves as a key for caches.
    """
    own: Hashable = tuple(_NAMES[group].items())
    try:
        hash(own)
    except TypeError:  # a registered object cannot be hashed: take its identity
        pairs = []
        for name, target in _NAMES[group].items():
            pairs.append((name, target if isinstance(target, str) else id(target)))
        own = tuple(pairs)
    suite_folders = load_target(_CHOSEN_SUITE_FOLDERS)()
    return own, suite_folders, tuple(_entry_points(group).items())


def own_targets(group: Group) -> Mapping[str, Any]:
    """Return what each name stands for, without the names that other packages and suites add."""
    return _NAMES[group]


def singular(group: str) -> str:
    """Return the singular of a group's name for messages: `table_forms` gives `table form`."""
    word = f"{group[:-3]}y" if group.endswith("ies") else group[:-1]
    return word.replace("_", " ")


def find_registered(group: Group, name: str) -> Any:
    """Return the object that a name of a group stands for; it is imported now if it was not before.

    Raises:
        UnknownNameError: There is no such name. The message suggests a similar one.
        HookError: The code of the object cannot be imported.

    Examples:
        >>> find_registered("metrics", "accuracy").names[0]
        'accuracy'
    """
    target = _NAMES[group].get(name) or _targets_of_others(group).get(name)
    if target is None:
        raise (
            of_lab(group, name)
            or _misspelt_code(group, name)
            or unknown_name(singular(group), name, names(group))
        )
    if not isinstance(target, str):
        return target
    loaded = load_hook(f"the {singular(group)} {name!r} ({target})", target)
    # Code may register itself in more detail while it is imported, as `sn.metric` does with its title.
    declared = _NAMES[group].get(name)
    return loaded if declared is None or isinstance(declared, str) else declared


def _misspelt_code(group: Group, name: str) -> UnknownNameError | None:
    """Return the error for a name that seems to mean the user's own code, but is not written as `my_file.py:NAME`.

    Returns:
        The error, which says how to write it; None if the name does not look like code, or if no code of the user
        can be named in this group.
    """
    looks_like_code = ":" in name or name.endswith(".py")
    if group not in ("metrics", "extractors") or not looks_like_code:
        return None
    hint = code_hint(name, "metric" if group == "metrics" else "")
    if not hint:
        hint = "for your own function, write FILE.py:NAME"
    return UnknownNameError(f"unknown {singular(group)} {name!r}; {hint}")


def names_code(target: str) -> bool:
    """Return whether the target of a name, such as `my_package.module:NAME`, is outside of Snellen's own modules."""
    return not target.startswith("snellen.")


def is_code(name: str) -> bool:
    """Return whether a name is written as `my_file.py:NAME` or `package.module:NAME`, which means code of the user."""
    module, colon, attribute = name.rpartition(":")
    return bool(colon) and attribute.isidentifier() and (module.endswith(".py") or "." in module)


def code_name(name: str) -> str:
    """Add the missing `.py` to `my_file:NAME` if there is a file `my_file.py` in the current folder.

    Any other name is returned unchanged. Call this only for names that the user of this process wrote (see
    `register_code`).
    """
    module, _, attribute = name.partition(":")
    if not (module.isidentifier() and attribute.isidentifier()):
        return name
    return f"{module}.py:{attribute}" if Path(f"{module}.py").is_file() else name


def code_attribute(name: str) -> str:
    """Return NAME of `my_file.py:NAME`; any other name is returned unchanged."""
    return name.rpartition(":")[2] if is_code(name) else name


def code_target(name: str) -> str:
    """Replace the file in `my_file.py:NAME` by its absolute path. `package.module:NAME` is returned unchanged.

    Raises:
        UnknownNameError: There is no such file.
    """
    module, _, attribute = name.rpartition(":")
    if not module.endswith(".py"):
        return name
    try:
        file = Path(module).expanduser().resolve()
    except RuntimeError:  # `~name` of nobody here
        file = Path(module)
    if not file.is_file():
        raise UnknownNameError(f"{name}: there is no file {module}; check the path")
    return f"{file}:{attribute}"


def register_code(group: Group, name: str) -> None:
    """Register code of the user under its short name: `my_file.py:brevity` becomes the metric `brevity`.

    Names of other forms are ignored. Call this only for names that the user of this process typed. A run or
    benchmark that somebody else made may contain any name, and its code must not be imported.

    Raises:
        UnknownNameError: There is no such file.
        DataError: The short name already belongs to something else.
    """
    if not is_code(name):
        return
    attribute = code_attribute(name)
    target = code_target(name)
    registered = targets(group).get(attribute)
    is_free = registered is None or registered == target or _is_made_from(registered, target)
    if not is_free:
        kind = singular(group)
        raise DataError(f"{name}: another {kind} is called {attribute}; give yours another name")
    register(group, attribute, target)


def _is_made_from(registered: Any, target: str) -> bool:
    """Return whether a registered object was made from the function that a target names.

    A function may be wrapped when it is registered. For example, a judge `my_file.py:kind` is stored as a metric
    object with the function in its attribute `measure`.

    Args:
        registered: The object.
        target: The function as `FILE.py:NAME` or `package.module:NAME`.
    """
    function = inspect.unwrap(getattr(registered, "measure", registered))
    module = str(getattr(function, "__module__", "")).removeprefix(FILE_MODULE)
    name = getattr(function, "__name__", "")
    return f"{module}:{name}" == target


def register_scoring_code(metrics: Iterable[str], extractor: str) -> None:
    """Register the metrics and the extractor among these names that are code of the user (see `register_code`)."""
    for metric in metrics:
        register_code("metrics", metric)
    register_code("extractors", extractor)


def loadable(group: Group) -> dict[str, Any]:
    """Import all objects of a group, and return them by name, in the order of `targets`.

    A command that lists a whole group must not fail because of one broken package. So objects of other packages
    that cannot be imported are left out with a warning; one of Snellen's own raises HookError.
    """
    loaded = {}
    for name in targets(group):
        try:
            loaded[name] = find_registered(group, name)
        except HookError as error:
            if name in _NAMES[group]:
                raise
            warnings.warn(f"left out: {error}", SuiteWarning, stacklevel=2)
    return loaded


def load_hook(what: str, target: str) -> Any:
    """Import the object `module:attribute`, which may be code that somebody else wrote.

    Args:
        what: What the object is, for the message of an error, such as "the metric 'brevity'".
        target: The object.

    Raises:
        HookError: Any error in the code, because importing runs it.
        MissingExtraError: Snellen's own code needs a package that is not installed.
    """
    try:
        if target.startswith("snellen."):
            with naming_missing_packages(what):
                return load_target(target)
        return load_target(target)
    except SnellenError:
        raise
    except Exception as error:  # importing a module runs it, so it may raise anything
        raise HookError(f"{what} cannot be loaded", error) from error


def load_target(target: str) -> Any:
    """Return the object `module:attribute`, and import its module if necessary. The module may also be a file.

    Raises:
        AttributeError: The module has no such attribute. The message suggests a similar one.

    Examples:
        >>> load_target("math:sqrt")(9.0)
        3.0
    """
    name, _, attribute = target.rpartition(":")
    # This function is called for every reply, and `import_module` takes 20 times as long as this look-up.
    module = sys.modules.get(name)
    is_being_imported = module is not None and getattr(module.__spec__, "_initializing", False)
    # If another thread imports the module now, `import_module` waits for it.
    if module is None or is_being_imported:
        module = _import_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    try:
        return getattr(module, attribute)
    except AttributeError:
        attributes = [known for known in vars(module) if not known.startswith("_")]
        raise AttributeError(str(unknown_name("attribute", attribute, attributes))) from None


def of_lab(group: Group, name: str) -> UnknownNameError | None:
    """Return the error for a name that snellen-lab would bring, with the command that installs it; None for others."""
    if name not in _NAMES_OF_LAB.get(group, ()) or name in targets(group):
        return None
    return UnknownNameError(
        f"the {singular(group)} {name!r} is part of another package: {sibling_install_line(LAB)}"
    )


def unknown_name(kind: str, name: str, candidates: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown name, which suggests the most similar candidates.

    If none is similar, the message lists all candidates or, for many benchmarks or metrics, says how to list them.

    Args:
        kind: What the name stands for, in words of the message: `benchmark`, `protocol` ...
        name: The unknown name.
        candidates: The names that exist.

    Examples:
        >>> print(unknown_name("colour", "gren", ["green", "red"]))
        unknown colour 'gren'; did you mean green?
    """
    candidates = sorted(candidates)
    similar = nearest_names(name, candidates)
    if similar:
        hint = "did you mean " + " or ".join(similar) + "?"
    elif kind in ("benchmark", "metric") and len(candidates) > 12:
        listing = for_caller(f"`snellen list {kind}s`", f"sn.list_{kind}s()")
        hint = f"{listing} shows all {len(candidates)}"
        if kind == "metric" and name.isidentifier():
            hint += f", and a function of your own is FILE.py:{name}"
    else:
        hint = "known: " + ", ".join(candidates)
        if kind == "reader":  # the entries of a suite are often copied without its package
            hint = f"if it comes with a suite, install the package of that suite; {hint}"
    return UnknownNameError(f"unknown {kind} {name!r}; {hint}")


def nearest_names(name: str, candidates: Sequence[str]) -> list[str]:
    """Return up to three candidates that a user who wrote `name` may have meant.

    These are the candidates that are spelt alike. If there are none, they are those whose last word is the name
    (`word_f1` for `f1`), and otherwise those whose last part is spelt like it (`modern/mmstar` for `mmstar`).
    """
    similar = _spelt_alike(name, candidates)
    if similar or "/" in name:
        return similar
    with_last_word = [candidate for candidate in candidates if candidate.endswith(f"_{name}")]
    current = [candidate for candidate in with_last_word if not candidate.startswith("legacy_")]
    if current:
        return current[-3:]
    by_last_part = {candidate.rpartition("/")[2]: candidate for candidate in candidates}
    return [by_last_part[part] for part in _spelt_alike(name, list(by_last_part))]


def _spelt_alike(name: str, candidates: Sequence[str]) -> list[str]:
    """Return up to three candidates that are spelt like the name, the most similar first.

    A candidate is left out if it differs from the name more than twice as much as the most similar one.
    """
    similar = difflib.get_close_matches(name, candidates, n=3, cutoff=0.6)
    differences: dict[str, float] = {}
    for candidate in similar:
        differences[candidate] = 1 - difflib.SequenceMatcher(None, candidate, name).ratio()
    smallest = min(differences.values(), default=0.0)
    return [candidate for candidate in similar if differences[candidate] <= 2 * smallest]


def _targets_of_others(group: Group) -> Mapping[str, str]:
    """Return the targets that suites and other packages add to a group, by name. Those of packages take precedence."""
    if group == "suites":
        return _entry_points(group)
    return {**load_target(_TARGETS_OF_SUITES)(group), **_entry_points(group)}


def _entry_points(group: Group) -> Mapping[str, str]:
    return entry_points_of("snellen.").get(f"snellen.{group}", {})


def _import_file(file: Path) -> Any:
    """Import a file as a module, once per process. An error in its code is raised unchanged.

    The folder of the file is added at the end of `sys.path`, so that the file can import the modules next to it, even
    later when its functions are called. Installed packages take precedence over these modules.
    """
    name = f"{FILE_MODULE}{file}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported as a module")
    module = importlib.util.module_from_spec(spec)
    folder = str(file.parent.absolute())
    is_new_folder = folder not in sys.path
    if is_new_folder:
        sys.path.append(folder)
    # As in an ordinary import, the module is listed before it runs: dataclasses and msgspec look it up by its name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        if is_new_folder and folder in sys.path:
            sys.path.remove(folder)
        raise
    return sys.modules[name]
