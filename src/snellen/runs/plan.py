"""What a run will ask: it finds and builds benchmarks, parses protocols and puts samples in order."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from snellen import registry
from snellen.building.benchmark import MANIFEST, Benchmark, Part, Selection, own_benchmarks
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, PromptSet, entries, select, suite_members, suite_of
from snellen.catalogue.cards import benchmarks_seen, load_cards
from snellen.common.conditions import Condition
from snellen.common.images import Images, JoinedImages
from snellen.common.paths import as_word, benchmark_folder, slug
from snellen.common.seeds import rng_for
from snellen.errors import DataError, NoSourceError, UnknownNameError
from snellen.models.base import answers_as
from snellen.protocols.base import Protocol, parse_protocol
from snellen.protocols.control import with_controls
from snellen.protocols.declaration import declaration_of
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.protocols.prompts.templates import (
    AS_PUBLISHED,
    Templates,
    declared_sets,
    declared_templates,
    named_templates,
)
from snellen.records import Decoding, Formulation, ImageRef, Method, Sample
from snellen.runs.budget import NOTHING_TAKEN, BudgetTaken
from snellen.runs.drivers import SampleItem
from snellen.runs.few_shot import FewShot
from snellen.runs.spec import ExecutionSpec, QuestionSpec, RunSpec

Announce = Callable[[str], object]
"""Called with one line for the user."""


class SelectedBenchmark(Struct, frozen=True):
    """A benchmark and which of its samples take part."""

    benchmark: Benchmark
    selection: Selection
    earlier: Selection | None = None
    """What this call has asked already, where it asks in rounds."""


class RunPlan(Struct, frozen=True):
    """What one model is asked, with all names looked up."""

    spec: RunSpec
    """The spec of one model, with the name of its run."""
    benchmarks: tuple[SelectedBenchmark, ...]
    protocols: tuple[Protocol, ...]
    """The same for all benchmarks; when empty, each benchmark's own by the spec's methods."""
    templates: Templates
    worker: int = 0
    """Which of the spec's workers this is; samples that share a picture stay together."""
    others: tuple[Path, ...] = ()
    """Folders of runs whose answers to the same requests are used too, if the same model gave them."""
    taken: BudgetTaken = NOTHING_TAKEN
    """How much of the budget earlier rounds of this call used."""

    @property
    def question(self) -> QuestionSpec:
        return self.spec.question

    @property
    def execution(self) -> ExecutionSpec:
        return self.spec.execution

    @property
    def folder(self) -> Path:
        return Path(self.execution.runs) / self.execution.name

    def takes(self, sample: Sample) -> bool:
        """Whether a sample is this worker's."""
        workers = self.execution.workers
        return workers == 1 or zlib.crc32(sample.group.encode()) % workers == self.worker


def plan_run(spec: RunSpec, announce: Announce = lambda line: None) -> RunPlan:
    """Look up what a spec of one model names; benchmarks that are embedded are built where they are not.

    Benchmarks of a suite or glob that have to be built from files first are left out, which is announced, as are
    those that are held out. Raises UnknownNameError, and DataError when nothing is left to ask.
    """
    question_spec = spec.question
    if not question_spec.benchmarks:
        raise DataError("name a benchmark to run; `snellen list` shows all")
    protocols = tuple(parse_protocol(text) for text in question_spec.protocols)
    without = held_out_benchmarks(question_spec.benchmarks, question_spec.held_out_for, question_spec.cards, announce)
    lacking = benchmarks_without_prompts(question_spec.benchmarks, question_spec.templates, announce)
    left_out = {*without, *lacking}
    benchmarks = find_benchmarks(
        question_spec.benchmarks, question_spec.where, question_spec.limit, announce, without=left_out, partial=True
    )
    published = _published_templates(benchmarks)
    if published and spec.scoring.as_published and not (question_spec.templates or question_spec.prompt):
        spec = spec.with_question(templates=AS_PUBLISHED)
    templates = _templates_of(spec.question.templates, benchmarks, published).with_prompt(question_spec.prompt)
    plan = RunPlan(spec, tuple(benchmarks), protocols, templates)
    check_roles(plan, dict(question_spec.roles))
    _check_temperature(plan)
    check_examples(plan)
    if spec.execution.name:
        return plan
    labels = tuple(protocol.label for protocol in protocols) or question_spec.methods
    # What names stand for, in their place.
    question = replace(
        question_spec, protocols=labels, method="generation", templates=templates.id, held_out_for=without, cards=""
    )
    return replace(plan, spec=spec.with_execution(name=default_name(question)))


def benchmarks_without_prompts(
    patterns: Sequence[str], name: str, announce: Announce = lambda line: None
) -> tuple[str, ...]:
    """Names of the benchmarks whose entries do not declare a set of prompts that others do, which is announced.

    Raises DataError where no benchmark of the patterns has it.
    """
    if not name:
        return ()
    sets = {spec.name: prompts_of(spec) for pattern in patterns for spec in specs_of(pattern)}
    if name not in {*declared_sets(), *(own for prompts in sets.values() for own in prompts)}:
        return ()
    lacking = tuple(benchmark for benchmark, prompts in sets.items() if name not in prompts)
    if len(lacking) == len(sets):
        known = ", ".join(sorted({own for prompts in sets.values() for own in prompts})) or "none"
        raise DataError(f"no set of prompts {name!r} is declared for {', '.join(lacking)}; declared: {known}")
    if lacking:
        announce(f"left out, as no set of prompts {name!r} is declared for them: {', '.join(lacking)}")
    return lacking


def prompts_of(spec: BenchmarkSpec) -> dict[str, PromptSet]:
    """The sets of prompts of a benchmark, by its entry of today: they are no part of what is built."""
    return entries().get(spec.name, spec).prompts


def _templates_of(name: str, benchmarks: Sequence[SelectedBenchmark], published: Mapping[str, str]) -> Templates:
    sets = {use.benchmark.name: prompts_of(use.benchmark.spec) for use in benchmarks}
    if name and all(name in prompts for prompts in sets.values()):
        return declared_templates(name, {benchmark: prompts[name] for benchmark, prompts in sets.items()})
    return named_templates(name, published)


def _published_templates(benchmarks: Sequence[SelectedBenchmark]) -> dict[str, str]:
    """By suite: the templates that its paper's questions were asked by, where it names some."""
    suites = (suite_of(use.benchmark.spec) for use in benchmarks)
    return {
        suite.name: suite.as_published.templates
        for suite in suites
        if suite and suite.as_published and suite.as_published.templates
    }


def default_name(question: QuestionSpec) -> str:
    """The default folder of a run: asking the same gives the same folder, however the work is done."""
    [model] = question.models
    roles = tuple((role, answers_as(name)) for role, name in question.roles)
    fields, defaults = asdict(replace(question, models=(answers_as(model),), roles=roles)), asdict(QuestionSpec())
    text = msgspec.json.encode({name: value for name, value in fields.items() if value != defaults[name]}).decode()
    # Names are digests of a record that had these fields too, so that runs of that time go on.
    text = (
        text.replace('"templates":', '"runs":"","templates":', 1)[:-1] + ',"error_budget":0.0,"scoring":{},"judge":{}}'
    )
    return f"{slug(answers_as(model))[:60]}-{digest(text)}"


def find_benchmarks(
    patterns: Sequence[str],
    where: str = "",
    limit: int | None = None,
    announce: Announce = lambda line: None,
    *,
    without: Collection[str] = (),
    partial: bool = False,
) -> list[SelectedBenchmark]:
    """The benchmarks that names, globs, suites or folders stand for, built when they are not.

    One that is not built yet is fetched and built. Those called one of `without` are left out, built or not; with
    `partial` also those of a suite or glob that cannot be fetched, which is announced, as long as there is another.
    Raises UnknownNameError for a name that nobody has, DataError when none is left or one cannot be fetched.
    """
    condition = Condition(where) if where else None
    by_folder: dict[Path, Benchmark] = {}
    for pattern in patterns:
        for benchmark in _open(pattern, condition, announce, without, partial, None if where else limit):
            if benchmark.name not in without:
                by_folder.setdefault(benchmark.folder.resolve(), benchmark)
    benchmarks = list(by_folder.values())
    _check_names(benchmarks)
    if condition:
        _check_facts(condition, benchmarks)
    uses = []
    for benchmark in benchmarks:
        facts = benchmark.spec.facts()
        by_facts = condition is not None and condition.names <= facts.keys() - benchmark.manifest.tags.keys()
        if condition and by_facts and not condition.holds(facts):
            continue
        use = SelectedBenchmark(benchmark, Selection("" if by_facts else where, limit))
        if benchmark.count(use.selection):
            uses.append(use)
    if not uses:
        if alone := [
            candidate.name for candidate in benchmarks if candidate.manifest.counts.examples and not candidate.count()
        ]:
            raise DataError(f"{alone[0]} has examples alone and nothing to ask; show them with --few-shot-from")
        if not where:
            raise DataError(f"nothing of {', '.join(patterns)} is left: a model has seen the data of all of them")
        raise DataError(f"no sample of {', '.join(patterns)} fits --where {where!r}")
    return uses


def open_benchmark(pattern: str) -> Benchmark:
    """The one benchmark that a name or folder stands for. Raises UnknownNameError or DataError."""
    benchmarks = list(_open(pattern, None, lambda line: None, (), False, None))
    if len(benchmarks) != 1:
        raise DataError(f"{pattern} stands for {len(benchmarks)} benchmarks; name one of them")
    return benchmarks[0]


def _check_names(benchmarks: Sequence[Benchmark]) -> None:
    folders: dict[str, Path] = {}
    for benchmark in benchmarks:
        namesake = folders.setdefault(benchmark.name, benchmark.folder)
        if namesake != benchmark.folder:
            raise DataError(
                f"{namesake} and {benchmark.folder} are both called {benchmark.name}; leave one out, or build it "
                "again under another name"
            )


def _check_facts(condition: Condition, benchmarks: Sequence[Benchmark]) -> None:
    """A fact may be missing from some benchmarks; one that no benchmark has is a typing error."""
    names = {name for benchmark in benchmarks for name in (*benchmark.spec.facts(), *benchmark.manifest.tags)}
    after = condition.names & {name for benchmark in benchmarks for name in benchmark.manifest.answer_tags} - names
    if after:
        raise DataError(
            f"--where: {min(after)!r} tells of the answers, which no run may know; choose by it when scoring, "
            "snellen score --where"
        )
    if names and (unknown := condition.names - names):
        raise DataError(f"--where: {registry.unknown('fact', min(unknown), names)}")


def _open(
    pattern: str,
    condition: Condition | None,
    announce: Announce,
    without: Collection[str],
    partial: bool,
    limit: int | None,
) -> Iterator[Benchmark]:
    folder = Path(pattern).expanduser()
    if (folder / MANIFEST).exists():
        yield Benchmark(folder)
        return
    if (benchmark_folder(pattern) / MANIFEST).exists() and pattern not in entries():
        yield Benchmark(benchmark_folder(pattern))
        return
    if folder.is_dir() and pattern.startswith((".", "/", "~")):
        raise DataError(f"{folder} is not a built benchmark; build it with `snellen build FILE --to {as_word(folder)}`")
    try:
        chosen = select(pattern)
    except UnknownNameError:
        if pattern.partition(":")[0] in suite_members():
            raise
        raise registry.unknown("benchmark", pattern, [*entries(), *own_benchmarks()]) from None
    specs = [spec for spec in chosen if spec.name not in without and _may_hold(condition, spec)]
    if not partial or len(specs) == 1:
        for spec in specs:
            yield _built_benchmark(spec, announce, limit)
        return
    missing = [spec for spec in specs if not _is_ready(spec)]
    if len(missing) > 1:
        from snellen.fetching.sources import announce_fetch

        announce_fetch(missing)
    opened, faults = [], []
    for spec in specs:
        try:
            opened.append(_built_benchmark(spec, announce, limit))
        except DataError as error:
            if spec not in missing:
                raise
            faults.append((spec, error))
    if faults and not opened:
        raise faults[0][1]
    for spec, fault in faults:
        if not isinstance(fault, NoSourceError):
            announce(f"{spec.name} is not built: {fault}")
    if faults:
        announce(f"not built yet, left out of {pattern}: {', '.join(spec.short for spec, _ in faults)}")
    yield from opened


def _is_ready(spec: BenchmarkSpec) -> bool:
    return spec.source.embedded or (benchmark_folder(spec.name) / MANIFEST).exists()


def _may_hold(condition: Condition | None, spec: BenchmarkSpec) -> bool:
    """Whether a condition may hold of a benchmark's samples, by its facts alone."""
    facts = spec.facts()
    return condition is None or not condition.names <= set(facts) or condition.holds(facts)


def held_out_benchmarks(
    patterns: Sequence[str], models: Sequence[str], cards: str = "", announce: Announce = lambda line: None
) -> tuple[str, ...]:
    """Names of the benchmarks whose data one of the models was trained on, by model cards (a file of the user's
    beside Snellen's own); each is announced with the reason. Raises UnknownNameError, DataError."""
    if not models:
        return ()
    own_cards = load_cards(Path(cards)) if cards else None
    specs = {spec.name: spec for pattern in patterns for spec in specs_of(pattern)}
    reasons = benchmarks_seen(specs.values(), models, own_cards)
    for reason in reasons:
        announce(f"left out: {reason}")
    return tuple(reason.benchmark for reason in reasons)


def specs_of(pattern: str) -> tuple[BenchmarkSpec, ...]:
    """The facts of what a name, glob, suite or folder stands for, built or not."""
    for folder in (Path(pattern).expanduser(), benchmark_folder(pattern)):
        if (folder / MANIFEST).exists():
            return (Benchmark(folder).spec,)
    return select(pattern)


def _built_benchmark(spec: BenchmarkSpec, announce: Announce, limit: int | None) -> Benchmark:
    """A benchmark, or a part of it that has what a run with this limit asks; fetched and built where it is not here."""
    folder = benchmark_folder(spec.name)
    if (folder / MANIFEST).exists():
        try:
            benchmark = Benchmark(folder)
        except DataError:
            if not spec.source.embedded:
                raise
            announce(f"building {spec.name} again: what was built is of another format, or damaged")
            return build_benchmark(spec)
        if benchmark.spec == spec:
            return benchmark
        if not spec.source.embedded:
            return benchmark
        announce(f"building {spec.name} again: its catalogue entry has changed")
    elif not spec.source.embedded:
        from snellen.fetching.parts import build_part, built_part  # loaded where something is to be fetched
        from snellen.fetching.sources import fetch_source

        if limit is not None and (part := built_part(spec.name, limit) or build_part(spec, limit)):
            return part
        fetched = fetch_source(spec)
        announce(f"building {spec.name}")
        return build_benchmark(fetched.spec, source=fetched.folder, origin=fetched.origin)
    else:
        announce(f"building {spec.name}")
    return build_benchmark(spec)


def work_items(plan: RunPlan) -> Iterator[SampleItem]:
    """All samples under all protocols that apply; all presentations of a picture come together."""
    for selected in plan.benchmarks:
        benchmark = selected.benchmark
        prompts = {form: prompt_of(benchmark.spec, form, plan) for form in get_args(Formulation)}
        few_shot = few_shot_of(benchmark, plan) if plan.question.few_shot else None
        images: Images = benchmark.images
        if few_shot and plan.question.few_shot_from:
            images = JoinedImages((images, example_source(benchmark, plan).images))
        histories: dict[str, tuple[str, ...]] = {}
        protocols = protocols_of(benchmark.spec, plan)
        shuffled = any(declaration_of(protocol).other_pictures for protocol in protocols)
        partners = picture_partners(benchmark) if shuffled else {}
        for sample in samples_of(selected):
            if not plan.takes(sample):
                continue
            for protocol in protocols:
                if protocol.applies(sample):
                    if protocol.gold_history and not histories:
                        histories = benchmark.histories()
                    history = _published(sample, histories) if protocol.gold_history else ()
                    swaps = declaration_of(protocol).other_pictures
                    presented = with_other_pictures(sample, partners) if swaps else sample
                    prompt = prompts[sample.formulation]
                    if few_shot:
                        prompt = replace(prompt, examples=few_shot.drawn_for(sample))
                    yield SampleItem(presented, protocol, prompt, images, history)


def samples_of(selected: SelectedBenchmark) -> Iterator[Sample]:
    """The samples of a benchmark that take part, except those of earlier rounds."""
    samples = selected.benchmark.samples(selected.selection)
    if selected.earlier is None:
        return samples
    earlier = {sample.id for sample in selected.benchmark.samples(selected.earlier)}
    return (sample for sample in samples if sample.id not in earlier)


def with_parts(plan: RunPlan, parts: Mapping[str, Part], earlier: Mapping[str, Part]) -> RunPlan:
    """The plan of a round: only these parts of the named benchmarks, without those of earlier rounds."""
    return replace(plan, benchmarks=tuple(_part_of(use, parts, earlier) for use in plan.benchmarks))


def _part_of(use: SelectedBenchmark, parts: Mapping[str, Part], earlier: Mapping[str, Part]) -> SelectedBenchmark:
    name = use.benchmark.name
    if name not in parts:
        return use
    before = replace(use.selection, part=earlier[name]) if name in earlier else None
    return SelectedBenchmark(use.benchmark, replace(use.selection, part=parts[name]), before)


def _published(sample: Sample, histories: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    if sample.id not in histories:
        raise DataError(f"{sample.benchmark}: the dialogue {sample.id} has no published history; use history=online")
    return histories[sample.id]


def protocols_of(spec: BenchmarkSpec, plan: RunPlan) -> tuple[Protocol, ...]:
    """The protocols that a benchmark is asked by: those of the run, else its own (a user's table asked as published has
    those of the suite of its form), else vanilla; and their controls."""
    return with_controls(plan.protocols or _own_protocols(spec, plan), plan.question.controls)


def _own_protocols(spec: BenchmarkSpec, plan: RunPlan) -> tuple[Protocol, ...]:
    suite = suite_of(spec)
    facts = suite if suite and not spec.suite and suite.name in plan.templates.by_suite else spec
    by_method: dict[Method, tuple[str, ...]] = {"generation": facts.generation, "likelihood": facts.likelihood}
    plain: dict[Method, tuple[str, ...]] = {
        "generation": ("vanilla",),
        "likelihood": () if spec.formulation == "text" else ("likelihood",),
    }
    return tuple(
        parse_protocol(text) for method in plan.question.methods for text in by_method[method] or plain[method]
    )


def check_examples(plan: RunPlan) -> None:
    """Raise DataError where the examples that are to be shown before questions are not there, too few, or not shown."""
    if not plan.question.few_shot:
        if source := plan.question.few_shot_from:
            raise DataError(f"--few-shot-from {source}: say how many are shown, as in --few-shot 4")
        return
    for selected in plan.benchmarks:
        for protocol in protocols_of(selected.benchmark.spec, plan):
            if declaration_of(protocol).conclude:
                raise DataError(f"{protocol.label} asks in steps of its own, without examples; leave --few-shot out")
        few_shot = few_shot_of(selected.benchmark, plan)
        for sample in samples_of(selected):
            few_shot.drawn_for(sample)


def example_source(benchmark: Benchmark, plan: RunPlan) -> Benchmark:
    """The benchmark whose examples are shown before the questions of another one, or of its own."""
    return open_benchmark(plan.question.few_shot_from) if plan.question.few_shot_from else benchmark


def few_shot_of(benchmark: Benchmark, plan: RunPlan) -> FewShot:
    """What is shown before the questions of a benchmark. Raises DataError where its source has no examples."""
    source = example_source(benchmark, plan)
    return FewShot(source.examples(), plan.question.few_shot, plan.question.few_shot_seed, plan.question.few_shot_same)


def prompt_of(spec: BenchmarkSpec, formulation: Formulation, plan: RunPlan) -> PromptRenderer:
    family, suite = spec.family or formulation, suite_of(spec)
    templates = plan.templates.by_suite.get(suite.name, plan.templates) if suite else plan.templates
    templates = plan.templates.by_benchmark.get(spec.name, templates)
    if templates.of_data and spec.instructions:
        templates = templates.with_instructions(family, spec.instructions)
    limit = plan.question.max_new_tokens or templates.decoding.max_new_tokens or spec.max_new_tokens
    decoding = _decoded(plan.question.decoding, templates.decoding)
    return PromptRenderer(templates, family, limit, decoding, plan.question.prefix)


def _decoded(asked: Decoding, usual: Decoding) -> Decoding:
    """What a run says of decoding, and what a set of prompts says where the run has a default."""
    return replace(
        asked,
        temperature=asked.temperature or usual.temperature,
        top_p=usual.top_p if asked.top_p == 1 else asked.top_p,
        stop=asked.stop or usual.stop,
    )


def count_items(plan: RunPlan, *, of_worker: bool = False) -> int:
    """How many (sample, protocol) pairs there are, for all workers or for the plan's own."""
    return sum(
        protocol.applies(sample) and (plan.takes(sample) or not of_worker)
        for selected in plan.benchmarks
        for protocols in (protocols_of(selected.benchmark.spec, plan),)
        for sample in samples_of(selected)
        for protocol in protocols
    )


def check_roles(plan: RunPlan, played: Collection[str]) -> None:
    """Raise DataError for a role that a protocol of the plan needs and nobody plays, or that none of them has."""
    needed = {
        role: protocol.label
        for selected in plan.benchmarks
        for protocol in protocols_of(selected.benchmark.spec, plan)
        for role in declaration_of(protocol).roles
    }
    for role, protocol in needed.items():
        if role not in played:
            raise DataError(f"{protocol} asks a {role}; name one with --role {role}=MODEL (roles={{{role!r}: MODEL}})")
    for role in played:
        if role not in needed:
            needed_names = f"; known: {', '.join(needed)}" if needed else ""
            raise DataError(f"no protocol of this run asks a {role}; leave --role {role}=... out{needed_names}")


def _check_temperature(plan: RunPlan) -> None:
    """Raise DataError for a protocol that repeats its requests where every reply would be the same."""
    if plan.question.temperature > 0:
        return
    for selected in plan.benchmarks:
        for protocol in protocols_of(selected.benchmark.spec, plan):
            if declaration_of(protocol).needs_temperature:
                raise DataError(
                    f"{protocol.label}: at temperature 0 all replies to a question are the same; set --temperature,"
                    " or greedy=true among its options to see whether they are"
                )


def digest(*parts: str) -> str:
    """Eight hexadecimal digits that stand for what a run was asked to do."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


# --- pictures of other samples, for controls --------------------------------------------------------------------------


PURPOSE = "shuffled pictures"
Partners = Mapping[tuple[ImageRef, ...], tuple[ImageRef, ...]]
"""The pictures that are shown instead, by a sample's own pictures."""


def picture_partners(benchmark: Benchmark) -> Partners:
    """For the pictures of each sample others from the same benchmark, never its own; they do not depend on which part
    is asked.

    All questions about a picture are shown the same other one. Raises DataError where all show the same.
    """
    pictures = list(dict.fromkeys(sample.images for sample in benchmark.samples() if sample.images))
    if len(pictures) == 1:
        raise DataError(f"{benchmark.name}: all its questions show the same picture; nothing can be shuffled")
    rng_for(benchmark.name, PURPOSE).shuffle(pictures)
    return dict(zip(pictures, [*pictures[1:], *pictures[:1]], strict=True))


def with_other_pictures(sample: Sample, partners: Partners) -> Sample:
    """The sample with as many pictures of other samples."""
    pictures = partners[sample.images]
    return replace(sample, images=tuple(pictures[i % len(pictures)] for i in range(len(sample.images))))
