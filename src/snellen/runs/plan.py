"""Plan a run: look up benchmarks, protocols and prompts, and check that they fit together."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen.building.benchmark import Benchmark, QuestionPart
from snellen.callers import for_caller, setting
from snellen.catalogue import BenchmarkSpec, PromptSet, suite_of
from snellen.catalogue.published_number import OWN_DECODING, OWN_WORDING
from snellen.errors import DataError
from snellen.protocols.base import Protocol, declaration_of, parse_protocol
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.protocols.prompts.templates import (
    AS_PUBLISHED,
    PromptTemplates,
    declared_templates,
    default_templates,
    named_templates,
    with_defaults_of,
    with_published_prompts,
)
from snellen.protocols.wrapping import with_controls
from snellen.records import Decoding, Formulation, Method, Sample
from snellen.runs.drivers import NO_BUDGET_USED, BudgetUse
from snellen.runs.few_shot import FewShot
from snellen.runs.finding import (
    AbsentBenchmark,
    Announce,
    SelectedBenchmark,
    announce_nothing,
    benchmarks_without_prompts,
    current_entry,
    find_benchmarks,
    held_out_benchmarks,
    open_benchmark,
    prompts_of,
)
from snellen.runs.run_name import announce_smaller_run, automatic_name, name_of_build
from snellen.runs.spec import ExecutionSpec, QuestionSpec, RunSpec


class RunPlan(Struct, frozen=True):
    """A run of one model, after the benchmarks, protocols and prompts that its settings name were found."""

    spec: RunSpec
    """The spec of one model, with the name of its run."""
    benchmarks: tuple[SelectedBenchmark, ...]
    protocols: tuple[Protocol, ...]
    """Protocols for all benchmarks. If empty, each benchmark has its own, by the spec's methods."""
    templates: PromptTemplates
    worker: int = 0
    """Index of this worker. Samples that share an image go to the same worker."""
    reusable_runs: tuple[Path, ...] = ()
    """Folders of runs whose replies to the same requests are used if the same model gave them."""
    budget_used: BudgetUse = NO_BUDGET_USED
    """Part of the budget that earlier rounds of this session used."""
    has_automatic_name: bool = False
    """Whether the run's folder is named after its questions, and not by the user."""

    @property
    def question(self) -> QuestionSpec:
        """Settings that determine the replies."""
        return self.spec.question

    @property
    def execution(self) -> ExecutionSpec:
        """Settings of how the work is done."""
        return self.spec.execution

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.execution.runs) / self.execution.name

    def is_for_worker(self, sample: Sample) -> bool:
        """Return whether a sample is evaluated by the worker process of this plan. A checksum of its group decides."""
        n_workers = self.execution.workers
        if n_workers == 1:
            return True
        checksum = zlib.crc32(sample.group.encode())
        return checksum % n_workers == self.worker

    def protocols_of(self, spec: BenchmarkSpec) -> tuple[Protocol, ...]:
        """Return the protocols of a benchmark in the run, and their controls.

        These are the protocols of the run or, if it has none, those of the benchmark. A user's table that is evaluated
        as published has the protocols of the suite whose format it has.
        """
        protocols = self.protocols or _declared_protocols(spec, self)
        return with_controls(protocols, self.question.controls)

    def with_parts(
        self, parts: Mapping[str, QuestionPart], earlier: Mapping[str, QuestionPart]
    ) -> RunPlan:
        """Return the plan of one round of an adaptive run, which evaluates a part of the questions.

        Args:
            parts: By the name of a benchmark, the part of its questions that the run is to have after the round. A
                benchmark that is absent is evaluated completely.
            earlier: By the name of a benchmark, the part that earlier rounds have evaluated, which is left out.
        """
        benchmarks = []
        for use in self.benchmarks:
            name = use.benchmark.name
            if name not in parts:
                benchmarks.append(use)
                continue
            selection = replace(use.selection, part=parts[name])
            earlier_selection = None
            if name in earlier:
                earlier_selection = replace(use.selection, part=earlier[name])
            benchmarks.append(SelectedBenchmark(use.benchmark, selection, earlier_selection))
        return replace(self, benchmarks=tuple(benchmarks))


# --- planning --------------------------------------------------------------------------------------------------------


def plan_run(
    spec: RunSpec,
    announce: Announce = announce_nothing,
    absent: list[AbsentBenchmark] | None = None,
) -> RunPlan:
    """Find the benchmarks, protocols and prompts that the settings of one model's run name, and check them.

    Embedded benchmarks are built if they are not. Other benchmarks of a suite or glob that are not built are left
    out, and so are held-out benchmarks; both are announced.

    Args:
        spec: The run.
        announce: Receives lines for the user.
        absent: Receives benchmarks that cannot be fetched. They are left out as long as others remain, unless the
            spec is strict. Without this list they raise DataError.

    Raises:
        UnknownNameError: A name does not exist.
        DataError: Nothing remains to run, or the settings do not fit together.
    """
    question_spec = spec.question
    if not question_spec.benchmarks:
        listing = for_caller("`snellen list`", "sn.list_benchmarks()")
        raise DataError(f"name a benchmark to run; {listing} shows all")
    protocols = tuple(parse_protocol(text) for text in question_spec.protocols)
    held_out = held_out_benchmarks(
        question_spec.benchmarks, question_spec.held_out_for, question_spec.cards, announce
    )
    without_prompts = benchmarks_without_prompts(
        question_spec.benchmarks, question_spec.templates, announce
    )
    benchmarks = find_benchmarks(
        question_spec.benchmarks,
        question_spec.where,
        question_spec.limit,
        announce,
        without={*held_out, *without_prompts},
        partial=True,
        absent=None if spec.execution.strict else absent,
    )

    has_own_prompts = question_spec.templates or question_spec.prompt
    if spec.scoring.as_published and not has_own_prompts and _are_published(benchmarks):
        spec = spec.with_question(templates=AS_PUBLISHED)
    templates = _templates_of_run(spec, benchmarks, protocols, announce)

    plan = RunPlan(spec, tuple(benchmarks), protocols, templates)
    check_roles(plan, dict(question_spec.roles))
    _announce_repeated_wording(plan, announce)
    _check_temperature(plan)
    check_examples(plan)
    _announce_inapplicable(plan, announce)
    if spec.execution.name:
        return plan

    question = _question_for_name(plan, held_out)
    name = automatic_name(question, spec.execution)
    announce_smaller_run(name, question, spec.execution, announce)
    named_spec = spec.with_execution(name=name)
    return replace(plan, spec=named_spec, has_automatic_name=True)


def _question_for_name(plan: RunPlan, held_out: tuple[str, ...]) -> QuestionSpec:
    """Return the settings after which the folder of a run is named.

    They depend on what is evaluated, and not on how the user named it.

    Args:
        plan: The plan of the run.
        held_out: Names of the benchmarks that are held out.
    """
    spec = plan.question
    benchmark_names = tuple(name_of_build(name) for name in spec.benchmarks)
    protocol_labels = tuple(protocol.label for protocol in plan.protocols)
    return replace(
        spec,
        benchmarks=benchmark_names,
        protocols=protocol_labels or spec.methods,
        method="generation",
        templates=plan.templates.id,
        held_out_for=held_out,
        cards="",
        temperature=spec.temperature or None,
        top_p=None if spec.top_p == 1 else spec.top_p,
    )


def samples_of(selected: SelectedBenchmark) -> Iterator[Sample]:
    """Yield the samples of a benchmark that a run is to evaluate now.

    In an adaptive run, which evaluates more and more samples, those of earlier rounds are left out.
    """
    earlier_ids: set[str] = set()
    if selected.earlier is not None:
        earlier_ids = {sample.id for sample in selected.benchmark.samples(selected.earlier)}
    for sample in selected.benchmark.samples(selected.selection):
        if sample.id not in earlier_ids:
            yield sample


# --- prompts ---------------------------------------------------------------------------------------------------------


def prompt_of(
    spec: BenchmarkSpec, formulation: Formulation, protocol: Protocol, plan: RunPlan
) -> PromptRenderer:
    """Return the object that makes the prompts of a benchmark under a protocol of a run.

    The templates for the benchmark take precedence over those for its suite, and these over the general ones. Default
    templates of a benchmark that have one wording are not used by a protocol that needs several, or by likelihood.

    Args:
        spec: The benchmark.
        formulation: Whether its questions have options or are open.
        protocol: The protocol.
        plan: The run.
    """
    suite = suite_of(spec)
    templates = plan.templates
    if suite:
        templates = templates.by_suite.get(suite.name, templates)
    of_benchmark = plan.templates.by_benchmark.get(spec.name)
    if of_benchmark and (not of_benchmark.for_one_wording or asks_in_one_wording(protocol)):
        templates = of_benchmark
    family = spec.family or formulation
    if templates.of_data and spec.instructions:
        templates = templates.with_instructions(family, spec.instructions)
    max_new_tokens = (
        plan.question.max_new_tokens or templates.decoding.max_new_tokens or spec.max_new_tokens
    )
    decoding = _merge_decoding(plan.question.decoding, templates.decoding)
    return PromptRenderer(templates, family, max_new_tokens, decoding, plan.question.prefix)


def asks_in_one_wording(protocol: Protocol) -> bool:
    """Return whether a protocol asks for replies with one prompt: it varies no templates, and has no steps of its own."""
    declaration = declaration_of(protocol)
    if declaration.varies_templates or declaration.conclude:
        return False
    return protocol.method == "generation"


def _merge_decoding(requested: Decoding, of_templates: Decoding) -> Decoding:
    """Return the decoding settings of a run.

    Args:
        requested: The settings of the user.
        of_templates: The settings of the prompt templates. They apply where the user's are at their defaults.
    """
    top_p = requested.top_p
    if top_p == 1:
        top_p = of_templates.top_p
    return replace(
        requested,
        temperature=requested.temperature or of_templates.temperature,
        top_p=top_p,
        stop=requested.stop or of_templates.stop,
    )


def _are_published(benchmarks: Sequence[SelectedBenchmark]) -> bool:
    """Return whether the prompts of a published number, or the templates of a suite's paper, are known for some benchmarks."""
    return bool(_published_templates(benchmarks) or _published_prompts(benchmarks))


def _templates_of_run(
    spec: RunSpec,
    benchmarks: Sequence[SelectedBenchmark],
    protocols: tuple[Protocol, ...],
    announce: Announce,
) -> PromptTemplates:
    """Return the prompt templates of a run, with its user's prompt and sampling settings.

    Args:
        spec: The run, whose question names the templates.
        benchmarks: The benchmarks of the run.
        protocols: Protocols for all benchmarks; if empty, each benchmark has its own.
        announce: Receives lines about benchmarks that are not asked in the words of their makers.
    """
    question = spec.question
    makers_prompts: dict[str, PromptSet] = {}
    if not (question.templates or question.prompt):
        draft = RunPlan(spec, tuple(benchmarks), protocols, default_templates())
        makers_prompts = _default_prompts(draft, announce)
    templates = _find_templates(
        question.templates, benchmarks, _published_templates(benchmarks), makers_prompts
    )
    if question.templates == AS_PUBLISHED:
        templates = with_published_prompts(templates, _published_prompts(benchmarks))
        _announce_unverified_prompts(benchmarks, announce)
    templates = templates.with_prompt(question.prompt)
    return _with_user_sampling(templates, question)


def _find_templates(
    name: str,
    benchmarks: Sequence[SelectedBenchmark],
    published: Mapping[str, str],
    makers_prompts: Mapping[str, PromptSet],
) -> PromptTemplates:
    """Return the prompt templates of a run.

    Args:
        name: A set of prompts that all benchmarks declare, or the name or file of templates; empty for the defaults.
        benchmarks: The benchmarks of the run.
        published: The name of the templates of the paper of each suite, by suite.
        makers_prompts: The set behind the published number of each benchmark that is asked by it by default.
    """
    specs = [use.benchmark.spec for use in benchmarks]
    if not name:
        present_entries = [current_entry(spec) for spec in specs]
        return with_defaults_of(default_templates(), present_entries, makers_prompts)

    prompt_sets = {}
    for spec in specs:
        prompts = prompts_of(spec)
        if name in prompts:
            prompt_sets[spec.name] = prompts[name]
    benchmark_names = {spec.name for spec in specs}
    if prompt_sets.keys() == benchmark_names:
        return declared_templates(name, prompt_sets)
    return named_templates(name, published)


def _default_prompts(plan: RunPlan, announce: Announce) -> dict[str, PromptSet]:
    """Return the prompts of published numbers that are used although the user named no prompts, by benchmark.

    They are used in suites that ask for it, by protocols that ask for a reply with a single prompt.
    If a benchmark or protocol of such a suite is asked in Snellen's own words instead, the user is
    told.

    Args:
        plan: The run, whose templates are not found yet.
        announce: Receives lines for the user.
    """
    sets: dict[str, PromptSet] = {}
    own_words: list[BenchmarkSpec] = []
    words_of_others: list[BenchmarkSpec] = []
    own_decoding: list[str] = []
    names_by_protocol: dict[str, list[str]] = defaultdict(list)
    for use in plan.benchmarks:
        entry = current_entry(use.benchmark.spec)
        suite = suite_of(entry)
        if suite is None or not suite.published_prompts or entry.templates:
            continue
        name = use.benchmark.name
        if entry.published and entry.published.no_decoding:
            own_decoding.append(name)
        if entry.published is None or not entry.published.prompt:
            own_words.append(entry)
            continue
        for protocol in plan.protocols_of(use.benchmark.spec):
            if asks_in_one_wording(protocol):
                sets[name] = entry.prompts[entry.published.prompt]
                if entry.published.prompt_by and entry not in words_of_others:
                    words_of_others.append(entry)
            elif protocol.method == "generation":
                names_by_protocol[protocol.label].append(name)
    for line in _wording_lines(own_words, words_of_others):
        announce(line)
    if own_decoding:
        announce(_own_decoding_line(own_decoding))
    for label, names in names_by_protocol.items():
        announce(
            f"{label} needs several prompts, so it asks in {OWN_WORDING}, not in that of the published number: "
            + _listed(names)
        )
    return sets


def _wording_lines(
    own_words: Sequence[BenchmarkSpec], words_of_others: Sequence[BenchmarkSpec]
) -> list[str]:
    """Return lines that tell which benchmarks are not asked in the words of their makers, and in whose they are.

    Args:
        own_words: Benchmarks that are asked in Snellen's own words.
        words_of_others: Benchmarks whose published number is obtained with a prompt of others.
    """
    lines: list[str] = []
    if words_of_others:
        names_by_author: dict[str, list[str]] = defaultdict(list)
        for entry in words_of_others:
            if entry.published:
                names_by_author[entry.published.prompt_by].append(entry.name)
        authors = [f"{author} ({_listed(names)})" for author, names in names_by_author.items()]
        lines.append(
            f"in the wording of others, because no prompt of their makers is known: {'; '.join(authors)}"
        )
    unexplained: list[str] = []
    for entry in own_words:
        reason = entry.published.no_prompt if entry.published else ""
        if reason:
            lines.append(
                f"in {OWN_WORDING}, because no prompt was published: {entry.name}: {reason}"
            )
        else:
            unexplained.append(entry.name)
    if unexplained:
        lines.append(
            f"in {OWN_WORDING}, because no prompt with a source is declared: {', '.join(unexplained)}"
        )
    return lines


def _own_decoding_line(names: Sequence[str]) -> str:
    return f"with {OWN_DECODING}, because none was published: {_listed(names)}"


MAX_LISTED = 3
"""The number of benchmarks that an announcement names if it is about many."""


def _listed(names: Sequence[str]) -> str:
    """Join the first names, and say how many more there are: `a, b, c and 7 more`."""
    listed = ", ".join(names[:MAX_LISTED])
    n_others = len(names) - MAX_LISTED
    if n_others > 0:
        listed += f" and {n_others} more"
    return listed


def _announce_repeated_wording(plan: RunPlan, announce: Announce) -> None:
    """Tell the user which benchmarks have one template although a protocol of the run varies templates."""
    if plan.question.prompt:
        return  # the user gave the one prompt
    names_by_protocol: dict[str, list[str]] = defaultdict(list)
    for use in plan.benchmarks:
        spec = use.benchmark.spec
        for protocol in plan.protocols_of(spec):
            templates = prompt_of(spec, spec.formulation, protocol, plan).templates
            if declaration_of(protocol).varies_templates and templates.prompt:
                names_by_protocol[protocol.label].append(spec.name)
    snellens_templates = setting("templates", "snellen")
    for label, names in names_by_protocol.items():
        announce(
            f"{label} varies the templates, but the prompts of the run have one for {_listed(names)}; {snellens_templates} has several"
        )


def _published_templates(benchmarks: Sequence[SelectedBenchmark]) -> dict[str, str]:
    """Return the name of the templates of each suite's paper, by the name of the suite."""
    templates = {}
    for use in benchmarks:
        suite = suite_of(use.benchmark.spec)
        if suite and suite.as_published and suite.as_published.templates:
            templates[suite.name] = suite.as_published.templates
    return templates


def _published_prompts(benchmarks: Sequence[SelectedBenchmark]) -> dict[str, PromptSet]:
    """Return the set of prompts with which each benchmark's published score was obtained, by the benchmark's name.

    Benchmarks whose entry does not say which set that was are absent.
    """
    sets = {}
    for use in benchmarks:
        entry = current_entry(use.benchmark.spec)
        if entry.published and entry.published.prompt:
            sets[use.benchmark.name] = entry.prompts[entry.published.prompt]
    return sets


def _announce_unverified_prompts(
    benchmarks: Sequence[SelectedBenchmark], announce: Announce
) -> None:
    """Tell the user which benchmarks of a run "as published" do not use the prompts of their authors.

    For some benchmarks, the published number was obtained by others, with a prompt of theirs. For
    some, no prompt with a known source is declared, so Snellen's own prompt is used.
    """
    own_words: list[BenchmarkSpec] = []
    words_of_others: list[BenchmarkSpec] = []
    own_decoding: list[str] = []
    for use in benchmarks:
        entry = current_entry(use.benchmark.spec)
        if entry.published is None:
            continue
        if entry.published.no_decoding:
            own_decoding.append(use.benchmark.name)
        if not entry.published.prompt:
            own_words.append(entry)
        elif entry.published.prompt_by:
            words_of_others.append(entry)
    for line in _wording_lines(own_words, words_of_others):
        announce(f"as published, {line}")
    if own_decoding:
        announce(_own_decoding_line(own_decoding))


def _with_user_sampling(templates: PromptTemplates, question: QuestionSpec) -> PromptTemplates:
    """Switch off the sampling that prompt templates of a benchmark ask for, if the user set temperature 0 or top-p 1.

    These are also the default values, so that without this step the templates would take precedence over the user.

    Args:
        templates: The prompt templates of the run.
        question: The settings of the user, in which an omitted temperature or top-p is None.
    """
    user_settings = {}
    if question.temperature == 0:
        user_settings["temperature"] = 0.0
    if question.top_p == 1:
        user_settings["top_p"] = 1.0
    by_benchmark = {}
    for benchmark, own_templates in templates.by_benchmark.items():
        decoding = replace(own_templates.decoding, **user_settings)
        by_benchmark[benchmark] = replace(own_templates, decoding=decoding)
    if by_benchmark == templates.by_benchmark:
        return templates
    description = ", ".join(f"{name} {value:g}" for name, value in user_settings.items())
    return replace(templates, id=f"{templates.id}, {description}", by_benchmark=by_benchmark)


def image_limits(plan: RunPlan) -> tuple[str, ...]:
    """Return a sentence for each benchmark of a plan whose prompt templates limit the size of its images."""
    lines = []
    for use in plan.benchmarks:
        name = use.benchmark.name
        templates = plan.templates.by_benchmark.get(name)
        if templates and templates.images.words:
            lines.append(f"{name}: {templates.images.words} (prompts {plan.question.templates})")
    return tuple(lines)


# --- protocols -------------------------------------------------------------------------------------------------------


def _declared_protocols(spec: BenchmarkSpec, plan: RunPlan) -> tuple[Protocol, ...]:
    """Return the protocols that a benchmark declares for the methods of a run, which are generation, likelihood or both.

    A user's table in the format of a suite, which is evaluated as published, has the protocols of that suite. If no
    protocol is declared, it is `vanilla` for generation, and `likelihood` for likelihood of questions with options.

    Args:
        spec: The catalogue entry of the benchmark.
        plan: The plan of the run.
    """
    suite = suite_of(spec)
    declaring = spec
    if suite and not spec.suite and suite.name in plan.templates.by_suite:
        declaring = suite
    protocols_by_method: dict[Method, tuple[str, ...]] = {
        "generation": declaring.generation,
        "likelihood": declaring.likelihood,
    }
    fallback: dict[Method, tuple[str, ...]] = {
        "generation": ("vanilla",),
        "likelihood": () if spec.formulation == "text" else ("likelihood",),
    }
    protocols: list[Protocol] = []
    for method in plan.question.methods:
        texts = protocols_by_method[method] or fallback[method]
        protocols.extend(parse_protocol(text) for text in texts)
    return tuple(protocols)


# --- few-shot examples -----------------------------------------------------------------------------------------------


def example_source(benchmark: Benchmark, plan: RunPlan) -> Benchmark:
    """Return the benchmark from which the few-shot examples of a benchmark are drawn.

    It is the one that the user named, or else the benchmark itself.
    """
    if plan.question.few_shot_from:
        return open_benchmark(plan.question.few_shot_from)
    return benchmark


def few_shot_of(benchmark: Benchmark, plan: RunPlan) -> FewShot:
    """Return the object that draws the few-shot examples for the samples of a benchmark.

    Raises:
        DataError: The benchmark from which the examples are drawn has none.
    """
    source = example_source(benchmark, plan)
    return FewShot(
        source.examples(),
        count=plan.question.few_shot,
        seed=plan.question.few_shot_seed,
        shared=plan.question.few_shot_same,
    )


# --- checks ----------------------------------------------------------------------------------------------------------


def check_examples(plan: RunPlan) -> None:
    """Raise DataError if few-shot examples are missing, too few, or not used by a protocol."""
    if not plan.question.few_shot:
        source = plan.question.few_shot_from
        if source:
            raise DataError(
                f"{setting('few_shot_from', source)} needs the number of examples, such as {setting('few_shot', 4)}"
            )
        return
    for selected in plan.benchmarks:
        for protocol in plan.protocols_of(selected.benchmark.spec):
            if declaration_of(protocol).conclude:
                raise DataError(
                    f"{protocol.label} has its own prompting steps and does not support examples; remove "
                    f"{setting('few_shot')}"
                )
        few_shot = few_shot_of(selected.benchmark, plan)
        for sample in samples_of(selected):
            few_shot.examples_for(sample)  # raises DataError if there are too few


def check_roles(plan: RunPlan, roles: Collection[str]) -> None:
    """Check that each role of the run's protocols has a model, and that each model has a role.

    Args:
        plan: The run.
        roles: The roles that have a model.

    Raises:
        DataError: A role has no model, or no protocol has the role of a model.
    """
    protocol_by_role = {}
    for selected in plan.benchmarks:
        for protocol in plan.protocols_of(selected.benchmark.spec):
            for role in declaration_of(protocol).roles:
                protocol_by_role[role] = protocol.label
    for role, protocol_label in protocol_by_role.items():
        if role not in roles:
            keyword = f"roles={{{role!r}: MODEL}}"
            how_to_set = for_caller(f"--role {role}=MODEL ({keyword})", keyword)
            raise DataError(
                f"{protocol_label} needs a model for the role {role}; name one with {how_to_set}"
            )
    for role in roles:
        if role not in protocol_by_role:
            existing_roles = f"; known: {', '.join(protocol_by_role)}" if protocol_by_role else ""
            raise DataError(
                f"no protocol of this run has the role {role}; remove "
                f"{setting('roles', {role: ...})}{existing_roles}"
            )


def _check_temperature(plan: RunPlan) -> None:
    """Raise DataError if a protocol repeats requests whose replies would all be the same."""
    for selected in plan.benchmarks:
        spec = selected.benchmark.spec
        for protocol in plan.protocols_of(spec):
            prompt = prompt_of(spec, spec.formulation, protocol, plan)
            is_greedy = prompt.decoding.temperature == 0
            if is_greedy and declaration_of(protocol).needs_temperature:
                raise DataError(
                    f"{protocol.label}: at temperature 0, all replies to a question should be identical; set "
                    f"{setting('temperature')}, or add the option greedy=true to test whether they are"
                )


def _announce_inapplicable(plan: RunPlan, announce: Announce) -> None:
    """Tell the user which benchmarks are not run because no protocol of the run supports their questions.

    Raises:
        DataError: These are all benchmarks of the run.
    """
    names_by_protocols: dict[str, list[str]] = defaultdict(list)
    n_inapplicable = 0
    for selected in plan.benchmarks:
        spec = selected.benchmark.spec
        protocols = plan.protocols_of(spec)
        if _any_applies(protocols, selected):
            continue
        labels = " and ".join(protocol.label for protocol in protocols) or plan.question.method
        names_by_protocols[labels].append(spec.name)
        n_inapplicable += 1

    lines = []
    for labels, names in names_by_protocols.items():
        lines.append(
            f"not run, because {labels} does not support their questions: {', '.join(names)}"
        )
    if n_inapplicable == len(plan.benchmarks):
        vanilla = for_caller("-p vanilla", "protocols='vanilla'")
        raise DataError(f"{'; '.join(lines)}; `{vanilla}` supports every question")
    for line in lines:
        announce(line)


def _any_applies(protocols: Sequence[Protocol], selected: SelectedBenchmark) -> bool:
    """Return whether any of the protocols can be used on any selected sample."""
    for sample in samples_of(selected):
        if any(protocol.applies(sample) for protocol in protocols):
            return True
    return False
