"""Keywords of `evaluate` under the names that other libraries have for them.

A name that can mean only one thing is taken as that. Others are refused with the line to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from snellen.building.spec import BUILD_FIELDS
from snellen.common.field_values import check_known
from snellen.errors import DataError, ModelError, UnknownNameError
from snellen.models.loading import names_model
from snellen.models.model_strings import model_string, parse_spec

SYNONYMS: Mapping[str, Collection[str]] = {
    "benchmarks": ("benchmark", "task", "tasks", "data", "dataset", "datasets", "eval_dataset"),
    "protocols": ("protocol",),
    "metrics": ("metric", "scorer", "scorers", "scoring_fn", "compute_metrics"),
    "extractor": (
        "parser",
        "postprocess",
        "postprocess_fn",
        "postprocessor",
        "extract",
        "extract_fn",
        "extract_answer",
        "answer_extractor",
    ),
    "judge": ("judge_model", "judges", "grader"),
    "limit": (
        "max_samples",
        "num_samples",
        "n_samples",
        "max_examples",
        "num_examples",
        "n_examples",
        "max_questions",
        "num_questions",
        "n",
    ),
    "seed": ("random_state", "random_seed"),
    "few_shot": ("fewshot", "num_fewshot", "n_shots", "num_shots", "shots", "k_shot"),
    "max_new_tokens": (
        "max_tokens",
        "max_output_tokens",
        "max_completion_tokens",
        "max_gen_toks",
    ),
    "temperature": ("temp",),
    "stop": ("stop_sequences", "stop_strings"),
    "prompt": ("prompt_template",),
    "templates": ("prompt_set",),
    "workers": ("num_workers", "max_workers", "n_workers", "n_jobs", "num_threads", "num_proc"),
    "cache": ("cache_dir", "cache_path"),
    "runs": (
        "output_dir",
        "output_path",
        "output",
        "out_dir",
        "save_dir",
        "save_to",
        "results_dir",
        "log_dir",
        "work_dir",
    ),
    "name": ("run_name", "run_id", "experiment", "experiment_name"),
}
"""For each keyword, the names that other libraries give it."""

MODEL_OPTIONS: Mapping[str, Collection[str]] = {
    "batch_size": ("per_device_eval_batch_size", "eval_batch_size"),
    "device": (),
    "device_map": (),
    "dtype": ("torch_dtype",),
    "attn_implementation": ("attn",),
    "min_pixels": (),
    "max_pixels": (),
    "trust_remote_code": (),
    "load_in_4bit": (),
    "load_in_8bit": (),
    "peft": ("adapter", "lora", "lora_path", "adapter_path"),
    "system": ("system_prompt", "system_message", "system_instruction"),
    "chat_template_kwargs": (),
    "reasoning_effort": (),
    "concurrency": ("num_concurrent", "max_connections", "max_concurrency"),
    "timeout": ("request_timeout",),
    "retries": ("max_retries", "num_retries"),
    "api_key_env": (),
}
"""For each option of model strings that `evaluate` takes as a keyword, the names that other libraries give it."""

SERVER = ("base_url", "api_base", "server", "endpoint", "server_url")
"""Names of the address of a server, which a model string has behind `@`."""

MODEL_ARGUMENTS = ("model_args", "model_kwargs")
"""Names of a table, or of a text such as `dtype=float32,device=cuda:0`, of options of the model."""

GENERATION = ("generation_kwargs", "gen_kwargs", "generation_config", "sampling_params")
"""Names of a table of settings of generation."""

WITHOUT_EFFECT: Mapping[str, Collection[Any]] = {
    "resume": (True,),
    "reuse": (True,),
    "overwrite": (False,),
    "force": (False,),
    "use_cache": (False,),
    "cache": (False,),
    "do_sample": (False,),
    "log_samples": (True,),
    "save": (True,),
    "return_samples": (True,),
    "apply_chat_template": (True,),
    "fewshot_as_multiturn": (True, False),
    "write_out": (True, False),
    "confirm_run_unsafe_code": (True, False),
}
"""Values of keywords that ask for what happens anyway."""

COLUMN = re.compile(r"(\w+?)_(?:columns?|col|field)")
COLUMN_ROLES: Mapping[str, str] = {
    **dict.fromkeys(("img", "picture", "images"), "image"),
    **dict.fromkeys(("label", "target", "gold", "reference"), "answer"),
    **dict.fromkeys(("prompt", "text", "input"), "question"),
    **dict.fromkeys(("choices", "option"), "options"),
    **dict.fromkeys(("pred", "predictions", "output", "response"), "prediction"),
}
"""The roles of columns that other libraries name by keywords such as `label_column`."""

_LIMIT = "limit=N asks N samples of each benchmark"
_ALWAYS_RESUMES = "the same call resumes; another name=... begins anew"
_PROCESSOR = "evaluate sn.hf(model, processor) instead of the model"
_KEY = (
    "keys are read from environment variables: OPENAI_API_KEY for OpenAI alone; no key is sent to another address "
    "unless api_key_env='OPENAI_API_KEY' names its variable"
)
_RUN_IS_STORED = "every run is stored, with each prompt and reply"
HINTS: Mapping[str, str] = {
    "processor": _PROCESSOR,
    "tokenizer": _PROCESSOR,
    "api_key": _KEY,
    "revision": "it belongs to the model: 'hf:org/name@REVISION'",
    "samples": f"{_LIMIT}; your own questions are the second argument",
    "examples": f"{_LIMIT}; few_shot=N shows N examples before each question",
    "subset": f"{_LIMIT}; where=\"category == 'chart'\" chooses by tags",
    "filter": "where=\"category == 'chart'\" chooses by tags",
    "split": "give the split itself: dataset['test'], 'hf://org/name/default:test', or the benchmark of that split",
    "shuffle": "sn.load_benchmark(name).shuffle(seed)[:N] has N random questions, which evaluate takes",
    "do_sample": "temperature=1 samples replies; the default, 0, is greedy",
    "num_beams": "replies are greedy, or sampled with temperature=...",
    "resume": _ALWAYS_RESUMES,
    "reuse": _ALWAYS_RESUMES,
    "overwrite": _ALWAYS_RESUMES,
    "force": _ALWAYS_RESUMES,
    "use_cache": "cache=FOLDER shares replies between runs",
    "cache": "cache is a folder, whose replies runs share; write cache='replies'",
    "log_samples": _RUN_IS_STORED,
    "save": _RUN_IS_STORED,
    "confirm": "nothing is asked before a run; max_cost=... or max_requests=... bounds it",
    "on_error": "error_budget=SHARE is the share of requests that may fail",
    "raise_on_error": "error_budget=SHARE is the share of requests that may fail",
    "fail_fast": "error_budget=0 raises an error if a request fails; the share may be larger",
    "tags": "label=... names the run in reports",
    "num_return_sequences": "protocols='repeat?k=5', temperature=0.7 asks each question 5 times",
    "num_repeats": "protocols='repeat?k=5', temperature=0.7 asks each question 5 times",
    "epochs": "protocols='repeat?k=5', temperature=0.7 asks each question 5 times",
    "prompt_fn": "prompt='{question} {options}' is a text with both; docs/prompt-sets.md has templates",
    "instruction": "prompt='INSTRUCTION {question}' replaces the instruction",
    "apply_chat_template": "the chat template of a model is always applied; chat_template_kwargs={...} sets its fields",
    "pretrained": "the model is the first argument: 'hf:org/name'",
    "return_samples": "results.samples of the results has a row for each reply",
    "verbosity": "progress=False and announce=print choose what is shown",
    "bootstrap_iters": "intervals need no resamples; results.ci is the 95% interval",
    "n_bootstrap": "intervals need no resamples; results.ci is the 95% interval",
    "alpha": "intervals are of 95%",
    "confidence": "intervals are of 95%",
    "average": "results.value() is the mean over benchmarks as their suites declare it, results.by('TAG') has groups",
    "stratify": "results.by('TAG') has the numbers of each value of a tag",
    "groupby": "results.by('TAG') has the numbers of each value of a tag",
    "group_by": "results.by('TAG') has the numbers of each value of a tag",
    "cv": "nothing is trained, so there are no folds; results.ci is the interval over images",
    "return_dict": "table().to_dicts() of the results has all numbers",
}
"""What to write instead of keywords that have no equal."""


def own_keywords(given: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the keywords of a call under the names that `evaluate` has, so that names of other libraries work, too.

    For example `max_samples=8, torch_dtype="float32"` becomes `limit=8, model_options={"dtype": "float32"}`. Keywords
    that ask for what happens anyway, such as `log_samples=True`, are left out.

    Args:
        given: The keywords of the call and their values.
        known: The names that `evaluate` has.

    Raises:
        UnknownNameError: A keyword means nothing here. The message says what to write instead.
        DataError: The same setting is given under two names, or a limit is not a whole number.

    Examples:
        >>> own_keywords({"max_samples": 5, "device": "cpu"}, {"limit"})
        {'limit': 5, 'model_options': {'device': 'cpu'}}
    """
    keywords: dict[str, Any] = {}
    options: dict[str, Any] = {}
    written: dict[str, str] = {}
    for name, value in _with_generation(given).items():
        if isinstance(value, bool) and value in WITHOUT_EFFECT.get(name, ()):
            continue
        if name in HINTS and isinstance(value, bool):
            raise DataError(f"{name}={value}: {HINTS[name]}")
        if name == "verbose":
            name = "progress"
            value = bool(value)
        own_name = name if name in known else _OWN_NAMES.get(name, "")
        option = _OPTION_NAMES.get(name, "")
        target = own_name or option
        if not target:
            raise _unknown_keyword(name, known)
        if target in written and value is not keywords.get(target):
            raise DataError(f"{written[target]}=... and {name}=... are the same; keep one")
        written[target] = name
        if target == "limit" and isinstance(value, float) and not value.is_integer():
            raise DataError(
                f"{name}={value}: expected a whole number; limit=100 asks 100 samples of each benchmark, and of "
                f"benchmark = sn.load_benchmark(NAME), benchmark[:int({value} * len(benchmark))] is a share"
            )
        if own_name:
            keywords[own_name] = value
        else:
            options[option] = value
    if options:
        keywords["model_options"] = options
    return keywords


def with_own_names(given: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Replace keywords that have the name of another library by Snellen's own, such as `grader` by `judge`.

    A keyword that Snellen does not know stays as it is, so that the called function raises the error.

    Args:
        given: The keywords of a call and their values.
        known: The names that the called function has.

    Raises:
        DataError: The same setting is given under two names.

    Examples:
        >>> with_own_names({"metric": "anls"}, {"metrics"})
        {'metrics': 'anls'}
    """
    keywords: dict[str, Any] = {}
    written: dict[str, str] = {}
    for name, value in given.items():
        own_name = name if name in known else _OWN_NAMES.get(name, name)
        target = own_name if own_name in known else name
        if target in written:
            raise DataError(f"{written[target]}=... and {name}=... are the same; keep one")
        written[target] = name
        keywords[target] = value
    return keywords


def _by_other_names(names: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Invert a table: `{"limit": ("n", "max_samples")}` becomes `{"n": "limit", "max_samples": "limit"}`."""
    return {other: own for own, others in names.items() for other in others}


_OWN_NAMES = _by_other_names(SYNONYMS)
_OPTION_NAMES = {
    **{option: option for option in MODEL_OPTIONS},
    **_by_other_names(MODEL_OPTIONS),
    **dict.fromkeys(SERVER, "server"),
}


def _with_generation(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords in which a dict of settings is replaced by the settings themselves.

    For example, `generation_kwargs={"max_new_tokens": 64}` becomes `max_new_tokens=64`. Such a dict may also be a
    text, as in `"max_new_tokens=64,temperature=0"`.

    Raises:
        DataError: The value is neither a dict nor such a text.
    """
    keywords: dict[str, Any] = {}
    for name, value in given.items():
        is_table = name in GENERATION or name in MODEL_ARGUMENTS
        if not is_table:
            keywords[name] = value
            continue
        if isinstance(value, str) and "=" in value:
            pairs = (pair.partition("=") for pair in value.split(","))
            value = {key.strip(): text.strip() for key, _, text in pairs}
            if name in GENERATION:
                value = {key: _number_of(text) for key, text in value.items()}
        if not isinstance(value, Mapping):
            raise DataError(f"{name}: expected a dict, such as {{'max_new_tokens': 64}}")
        keywords |= value
    return keywords


def _number_of(text: str) -> Any:
    """Return the number or truth value that a text stands for: 5 for `5`, True for `true`. Other texts are returned as
    they are.
    """
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        return float(text)
    return {"true": True, "false": False}.get(text.lower(), text)


def _unknown_keyword(name: str, known: Collection[str]) -> UnknownNameError:
    """Return the error for a keyword that `evaluate` does not have, with what to write instead."""
    if name in HINTS:
        return UnknownNameError(f"evaluate has no keyword {name!r}; {HINTS[name]}")
    column = COLUMN.fullmatch(name)
    if column:
        role = COLUMN_ROLES.get(column[1], column[1])
        hint = f"columns={{{role!r}: COLUMN}} names a column of your own rows"
        if role == "prediction":
            hint = "sn.score(rows) scores predictions that you have; it finds their columns"
        return UnknownNameError(f"evaluate has no keyword {name!r}; {hint}")
    if name in BUILD_FIELDS:
        return UnknownNameError(
            f"evaluate has no keyword {name!r}; it belongs to the build: evaluate(model, sn.build(questions, "
            f"{name}=...))"
        )
    try:
        check_known([name], known, "keyword", "")
    except UnknownNameError as error:
        return error
    return UnknownNameError(f"unknown keyword {name!r}")


def with_model_options(model: Any, options: Mapping[str, Any]) -> Any:
    """Add options that were given as keywords to a model string.

    Args:
        model: A model string. An object is returned unchanged if there are no options.
        options: The options by name. `server` is the address of a server.

    Raises:
        UnknownNameError: The model is an object, whose settings are chosen where it is made.
        ModelError: An address is given, but the model string has no scheme such as `openai:`.

    Examples:
        >>> with_model_options("openai:gpt-4o", {"server": "http://localhost:8000/v1", "timeout": 30})
        'openai:gpt-4o@http://localhost:8000/v1?timeout=30'
    """
    if not options:
        return model
    if not isinstance(model, str):
        names = ", ".join(options)
        raise UnknownNameError(
            f"{names}: such an option belongs to a model string ('hf:org/name'); set it where you make the model, "
            "as in sn.hf(model, processor, batch_size=8)"
        )
    texts = {name: _as_option(value) for name, value in options.items()}
    server = texts.pop("server", "")
    if server:
        if not names_model(model):
            name = model.removeprefix("openai/")
            raise ModelError(
                f"model {model!r} has no scheme; a server at an address is asked by 'openai:{name}'"
            )
        body, question_mark, query = model.partition("?")
        model = f"{body}@{server}{question_mark}{query}"
    parse_spec(model)
    return model_string(model, **texts)


def _as_option(value: Any) -> Any:
    """Return the value of an option as it is written in a model string: `bfloat16` for `torch.bfloat16`."""
    if type(value).__module__.partition(".")[0] == "torch":
        return str(value).removeprefix("torch.")
    return value
