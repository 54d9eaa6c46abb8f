"""What a run will ask: it finds and builds benchmarks, parses protocols and puts samples in order."""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from snellen.building.benchmark import Benchmark, Part
from snellen.catalogue import BenchmarkSpec, suite_of
from snellen.common.images import Images, JoinedImages
from snellen.common.paths import slug
from snellen.common.seeds import rng_for
from snellen.errors import DataError, StoreError
from snellen.models.base import address_of, answers_as
from snellen.protocols.base import Protocol, declaration_of, parse_protocol
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.protocols.prompts.templates import (
    AS_PUBLISHED,
    Templates,
    declared_templates,
    named_templates,
    with_defaults_of,
)
from snellen.protocols.wrapping import with_controls
from snellen.records import EVALUATED, Decoding, Example, Formulation, ImageRef, Method, Sample
from snellen.runs.drivers import (
    NOTHING_TAKEN,
    BudgetTaken,
    ProgressCallback,
    ProgressUpdate,
    SampleItem,
)
from snellen.runs.finding import (
    AbsentBenchmark,
    Announce,
    SelectedBenchmark,
    benchmarks_without_prompts,
    entry_of_today,
    find_benchmarks,
    held_out_benchmarks,
    open_benchmark,
    prompts_of,
    silent,
)
from snellen.runs.run_folder import RUN_MANIFEST, Stretch, read_manifest
from snellen.runs.spec import ExecutionSpec, QuestionSpec, RunSpec


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
    has_automatic_name: bool = False
    """Whether the run's folder was named by what is asked, and not by its user."""

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


def plan_run(
    spec: RunSpec, announce: Announce = silent, absent: list[AbsentBenchmark] | None = None
) -> RunPlan:
    """Look up what a spec of one model names; benchmarks that are embedded are built where they are not.

    Benchmarks of a suite or glob that have to be built from files first are left out, which is announced, as are
    those that are held out. With `absent` those that cannot be fetched are added to it, and left out as long as others
    are left, unless the spec is strict. Raises UnknownNameError, and DataError when nothing is left to ask.
    """
    question_spec = spec.question
    if not question_spec.benchmarks:
        raise DataError("name a benchmark to run; `snellen list` shows all")
    protocols = tuple(parse_protocol(text) for text in question_spec.protocols)
    without = held_out_benchmarks(
        question_spec.benchmarks, question_spec.held_out_for, question_spec.cards, announce
    )
    lacking = benchmarks_without_prompts(
        question_spec.benchmarks, question_spec.templates, announce
    )
    left_out = {*without, *lacking}
    benchmarks = find_benchmarks(
        question_spec.benchmarks,
        question_spec.where,
        question_spec.limit,
        announce,
        without=left_out,
        partial=True,
        absent=None if spec.execution.strict else absent,
    )
    published = _published_templates(benchmarks)
    if (
        published
        and spec.scoring.as_published
        and not (question_spec.templates or question_spec.prompt)
    ):
        spec = spec.with_question(templates=AS_PUBLISHED)
    templates = _templates_of(spec.question.templates, benchmarks, published).with_prompt(
        question_spec.prompt
    )
    templates = _undone(templates, question_spec)
    plan = RunPlan(spec, tuple(benchmarks), protocols, templates)
    check_roles(plan, dict(question_spec.roles))
    _check_temperature(plan)
    check_examples(plan)
    _say_what_no_protocol_asks(plan, announce)
    if spec.execution.name:
        return plan
    labels = tuple(protocol.label for protocol in protocols) or question_spec.methods
    # What names stand for, in their place.
    question = replace(
        question_spec,
        protocols=labels,
        method="generation",
        templates=templates.id,
        held_out_for=without,
        cards="",
        temperature=question_spec.temperature or None,
        top_p=None if question_spec.top_p == 1 else question_spec.top_p,
    )
    named_spec = spec.with_execution(name=automatic_name(question, spec.execution))
    return replace(plan, spec=named_spec, has_automatic_name=True)


def _say_what_no_protocol_asks(plan: RunPlan, announce: Announce) -> None:
    """Announce benchmarks of which no protocol of the run can ask any question; raise DataError where these are all."""
    unasked: dict[str, list[str]] = defaultdict(list)
    for selected in plan.benchmarks:
        spec = selected.benchmark.spec
        protocols = protocols_of(spec, plan)
        if not any(
            protocol.applies(sample) for sample in samples_of(selected) for protocol in protocols
        ):
            unasked[" and ".join(p.label for p in protocols) or plan.question.method].append(
                spec.name
            )
    lines = [
        f"not asked, as {labels} cannot ask their questions: {', '.join(names)}"
        for labels, names in unasked.items()
    ]
    if sum(map(len, unasked.values())) == len(plan.benchmarks):
        raise DataError(f"{'; '.join(lines)}; `-p vanilla` asks any question")
    for line in lines:
        announce(line)


def _templates_of(
    name: str, benchmarks: Sequence[SelectedBenchmark], published: Mapping[str, str]
) -> Templates:
    sets = {use.benchmark.name: prompts_of(use.benchmark.spec) for use in benchmarks}
    if name and all(name in prompts for prompts in sets.values()):
        return declared_templates(
            name, {benchmark: prompts[name] for benchmark, prompts in sets.items()}
        )
    templates = named_templates(name, published)
    return (
        templates
        if name
        else with_defaults_of(templates, [entry_of_today(use.benchmark.spec) for use in benchmarks])
    )


def _undone(templates: Templates, question: QuestionSpec) -> Templates:
    """The templates without what their sets say of sampling where the run says that nothing is sampled, or nothing left
    out: as defaults these are a set's to change."""
    stated = {"temperature": 0.0} if question.temperature == 0 else {}
    stated |= {"top_p": 1.0} if question.top_p == 1 else {}
    sets = {
        benchmark: replace(own, decoding=replace(own.decoding, **stated))
        for benchmark, own in templates.by_benchmark.items()
    }
    if sets == templates.by_benchmark:
        return templates
    words = ", ".join(f"{name} {value:g}" for name, value in stated.items())
    return replace(templates, id=f"{templates.id}, {words}", by_benchmark=sets)


def shown_pictures(plan: RunPlan) -> tuple[str, ...]:
    """For each benchmark whose pictures a set of prompts limits, one line on how they are shown."""
    sets = {
        use.benchmark.name: plan.templates.by_benchmark.get(use.benchmark.name)
        for use in plan.benchmarks
    }
    return tuple(
        f"{name}: {own.pictures.words} (prompts {plan.question.templates})"
        for name, own in sets.items()
        if own and own.pictures.words
    )


def _published_templates(benchmarks: Sequence[SelectedBenchmark]) -> dict[str, str]:
    """By suite: the templates that its paper's questions were asked by, where it names some."""
    suites = (suite_of(use.benchmark.spec) for use in benchmarks)
    return {
        suite.name: suite.as_published.templates
        for suite in suites
        if suite and suite.as_published and suite.as_published.templates
    }


def automatic_name(question: QuestionSpec, execution: ExecutionSpec) -> str:
    """Return the name of the folder of a run that its user has not named.

    It is the default name, unless a run of the same is in another folder: under the name that earlier versions gave,
    or, where the model has moved, under that of its former address. Raises DataError where several runs may have moved.
    """
    name = default_name(question)
    runs = Path(execution.runs)
    earlier_name = _default_name(question, answers_as)
    if _was_asked_at(runs / earlier_name, question):
        return earlier_name
    if not execution.moved or (runs / name / RUN_MANIFEST).exists():
        return name
    former = [folder for folder in _run_folders(runs) if _asked_the_same(folder, question)]
    if len(former) > 1:
        raise DataError(
            f"--moved: {' and '.join(str(folder) for folder in former)} asked the same at other addresses; "
            "name the one that goes on with --name"
        )
    return former[0].name if former else name


def default_name(question: QuestionSpec) -> str:
    """Return the default folder of a run: asking the same gives the same folder, however the work is done."""
    return _default_name(question, _identity_with_address)


def _default_name(question: QuestionSpec, identify: Callable[[str], str]) -> str:
    [model] = question.models
    roles = tuple((role, identify(name)) for role, name in question.roles)
    fields, defaults = (
        asdict(replace(question, models=(identify(model),), roles=roles)),
        asdict(QuestionSpec()),
    )
    text = msgspec.json.encode(
        {name: value for name, value in fields.items() if value != defaults[name]}
    ).decode()
    # Names are digests of a record that had these fields too, so that runs of that time go on.
    text = (
        text.replace('"templates":', '"runs":"","templates":', 1)[:-1]
        + ',"error_budget":0.0,"scoring":{},"judge":{}}'
    )
    return f"{slug(identify(model))[:60]}-{digest(text)}"


def _identity_with_address(model: str) -> str:
    """Return a model string without how the model is reached, but for its address."""
    identity = answers_as(model)
    address = address_of(model)
    if not address or address in identity:
        return identity
    name, at, path = identity.partition("@/")
    return f"{name}@{address}/{path}" if at else f"{identity}@{address}"


def _run_folders(runs: Path) -> list[Path]:
    return sorted(path.parent for path in runs.glob(f"*/{RUN_MANIFEST}"))


def _was_asked_at(folder: Path, question: QuestionSpec) -> bool:
    """Return whether a run asked the question's models at their present addresses."""
    models = {EVALUATED: question.models[0], **dict(question.roles)}
    addresses = {role: address_of(model) for role, model in models.items()}
    for stretch in _sessions(folder):
        if {role: address_of(model) for role, model in stretch.models.items()} == addresses:
            return True
    return False


def _asked_the_same(folder: Path, question: QuestionSpec) -> bool:
    """Return whether a run with an automatic name asked the same of the same models at other addresses."""
    for stretch in _sessions(folder):
        model = stretch.models.get(EVALUATED, "")
        roles = tuple((role, stretch.models.get(role, name)) for role, name in question.roles)
        former = replace(question, models=(model,), roles=roles)
        if answers_as(model) != answers_as(question.models[0]):
            continue
        if folder.name in (default_name(former), _default_name(former, answers_as)):
            return True
    return False


def _sessions(folder: Path) -> tuple[Stretch, ...]:
    try:
        return read_manifest(folder).stretches
    except StoreError:
        return ()


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
                    prompt = prompts[_worded_as(sample)]
                    if few_shot:
                        prompt = replace(prompt, examples=few_shot.drawn_for(sample))
                    yield SampleItem(presented, protocol, prompt, images, history)


def _worded_as(sample: Sample) -> Formulation:
    """How a sample is asked: a dialogue without options as open questions are, and not to choose among options."""
    return sample.formulation if any(turn.options for turn in sample.rounds) else "text"


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


def _part_of(
    use: SelectedBenchmark, parts: Mapping[str, Part], earlier: Mapping[str, Part]
) -> SelectedBenchmark:
    name = use.benchmark.name
    if name not in parts:
        return use
    before = replace(use.selection, part=earlier[name]) if name in earlier else None
    return SelectedBenchmark(use.benchmark, replace(use.selection, part=parts[name]), before)


def _published(sample: Sample, histories: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    if sample.id not in histories:
        raise DataError(
            f"{sample.benchmark}: the dialogue {sample.id} has no published history; use history=online"
        )
    return histories[sample.id]


def protocols_of(spec: BenchmarkSpec, plan: RunPlan) -> tuple[Protocol, ...]:
    """The protocols that a benchmark is asked by: those of the run, else its own (a user's table asked as published has
    those of the suite of its form), else vanilla; and their controls."""
    return with_controls(plan.protocols or _own_protocols(spec, plan), plan.question.controls)


def _own_protocols(spec: BenchmarkSpec, plan: RunPlan) -> tuple[Protocol, ...]:
    suite = suite_of(spec)
    facts = suite if suite and not spec.suite and suite.name in plan.templates.by_suite else spec
    by_method: dict[Method, tuple[str, ...]] = {
        "generation": facts.generation,
        "likelihood": facts.likelihood,
    }
    plain: dict[Method, tuple[str, ...]] = {
        "generation": ("vanilla",),
        "likelihood": () if spec.formulation == "text" else ("likelihood",),
    }
    return tuple(
        parse_protocol(text)
        for method in plan.question.methods
        for text in by_method[method] or plain[method]
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
                raise DataError(
                    f"{protocol.label} asks in steps of its own, without examples; leave --few-shot out"
                )
        few_shot = few_shot_of(selected.benchmark, plan)
        for sample in samples_of(selected):
            few_shot.drawn_for(sample)


def example_source(benchmark: Benchmark, plan: RunPlan) -> Benchmark:
    """The benchmark whose examples are shown before the questions of another one, or of its own."""
    return open_benchmark(plan.question.few_shot_from) if plan.question.few_shot_from else benchmark


def few_shot_of(benchmark: Benchmark, plan: RunPlan) -> FewShot:
    """What is shown before the questions of a benchmark. Raises DataError where its source has no examples."""
    source = example_source(benchmark, plan)
    return FewShot(
        source.examples(),
        plan.question.few_shot,
        plan.question.few_shot_seed,
        plan.question.few_shot_same,
    )


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


def count_to_ask(plan: RunPlan, *, of_worker: bool = False) -> tuple[int, int]:
    """How many questions are asked, by all workers or by the plan's own: once per protocol, and each but once."""
    by_protocol = of_any = 0
    for selected in plan.benchmarks:
        protocols = protocols_of(selected.benchmark.spec, plan)
        for sample in samples_of(selected):
            times = sum(protocol.applies(sample) for protocol in protocols)
            if times and (plan.takes(sample) or not of_worker):
                by_protocol += times * len(sample.rounds)
                of_any += len(sample.rounds)
    return by_protocol, of_any


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
            raise DataError(
                f"{protocol} asks a {role}; name one with --role {role}=MODEL (roles={{{role!r}: MODEL}})"
            )
    for role in played:
        if role not in needed:
            needed_names = f"; known: {', '.join(needed)}" if needed else ""
            raise DataError(
                f"no protocol of this run asks a {role}; leave --role {role}=... out{needed_names}"
            )


def _check_temperature(plan: RunPlan) -> None:
    """Raise DataError for a protocol that repeats its requests where every reply would be the same."""
    for selected in plan.benchmarks:
        spec = selected.benchmark.spec
        greedy = not prompt_of(spec, spec.formulation, plan).decoding.temperature
        for protocol in protocols_of(spec, plan):
            if greedy and declaration_of(protocol).needs_temperature:
                raise DataError(
                    f"{protocol.label}: at temperature 0 all replies to a question are the same; set --temperature,"
                    " or greedy=true among its options to see whether they are"
                )


def digest(*parts: str) -> str:
    """Eight hexadecimal digits that stand for what a run was asked to do."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


# --- pictures of other samples, for controls --------------------------------------------------------------------------


SHUFFLED = "shuffled pictures"
Partners = Mapping[tuple[ImageRef, ...], tuple[ImageRef, ...]]
"""The pictures that are shown instead, by a sample's own pictures."""


def picture_partners(benchmark: Benchmark) -> Partners:
    """For the pictures of each sample others from the same benchmark, never its own; they do not depend on which part
    is asked.

    All questions about a picture are shown the same other one. Raises DataError where all show the same.
    """
    pictures = list(dict.fromkeys(sample.images for sample in benchmark.samples() if sample.images))
    if len(pictures) == 1:
        raise DataError(
            f"{benchmark.name}: all its questions show the same picture; nothing can be shuffled"
        )
    rng_for(benchmark.name, SHUFFLED).shuffle(pictures)
    return dict(zip(pictures, [*pictures[1:], *pictures[:1]], strict=True))


def with_other_pictures(sample: Sample, partners: Partners) -> Sample:
    """The sample with as many pictures of other samples."""
    pictures = partners[sample.images]
    return replace(
        sample, images=tuple(pictures[i % len(pictures)] for i in range(len(sample.images)))
    )


# --- which examples are shown, with their answers, before a question --------------------------------------------------


FEW_SHOT = "few-shot"


class FewShot:
    """Draws `count` examples for each sample by its name, or with `same` one set that all samples of a form share.

    A sample with options is shown examples with options, any other one open questions. Never drawn are the sample
    itself and questions about one of its pictures, or, without pictures, the same question; of a set that all share,
    such an example gives way to the next one.
    """

    def __init__(
        self, examples: Sequence[Example], count: int, seed: int = 0, shared: bool = False
    ) -> None:
        self._count, self._seed, self._same = count, seed, shared
        self._names = {_name(example) for example in examples}
        self._by_form: dict[bool, list[Example]] = defaultdict(list)
        self._by_subject: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for example in examples:
            self._by_form[bool(example.options)].append(example)
            for subject in _subjects(example):
                self._by_subject[subject].add(_name(example))
        if shared:
            for of_form in self._by_form.values():
                rng_for(of_form[0].benchmark, FEW_SHOT, seed).shuffle(of_form)

    def drawn_for(self, sample: Sample) -> tuple[Example, ...]:
        """The examples in the order in which they are shown. Raises DataError where there are too few."""
        has_options = bool(sample.rounds[0].options)
        alike = (self._by_subject.get(subject, set()) for subject in _subjects(sample))
        left_out = ({_name(sample)} & self._names).union(*alike)
        fit = self._by_form[has_options]
        if left_out:
            fit = [example for example in fit if _name(example) not in left_out]
        if len(fit) < self._count:
            raise DataError(
                f"{sample.benchmark} {sample.id}: {len(fit)} examples {'with' if has_options else 'without'} options "
                f"are about something else than it is, but --few-shot {self._count} needs as many; ask for fewer, or "
                "build with more examples"
            )
        if self._same:
            return tuple(fit[: self._count])
        return tuple(
            rng_for(sample.benchmark, sample.id, FEW_SHOT, self._seed).sample(fit, self._count)
        )


def _name(sample: Sample) -> tuple[str, str]:
    return sample.benchmark, sample.id


def _subjects(sample: Sample) -> list[str]:
    """What a sample is about: its pictures, or, where it has none, its question."""
    question = f"{sample.context or ''}\n{sample.rounds[0].question}"
    return [image.digest for image in sample.images] or [question]


# --- how far a run has come -------------------------------------------------------------------------------------------


class RunProgress(Struct, frozen=True):
    """The state of one model's run."""

    model: str
    folder: str
    """Folder of the run; every answer is kept there, whatever happens."""
    done: int
    """Questions finished, counted once per protocol; each turn of a dialogue is one."""
    total: int
    requests: int = 0
    """Requests answered or failed since this call began."""
    failures: int = 0
    different: int = 0
    """How many different questions the total is of, where several protocols ask the same ones; else 0."""


class SessionPace:
    """How fast questions are finished, from this session's answers alone: not from what was answered before, nor from
    the time before the first answer came."""

    def __init__(self) -> None:
        self._began: tuple[float, int, int] | None = None

    def rate(self, now: float, requests: int, done: int) -> float | None:
        """Questions a second; None while none was finished by a second answer. `requests` are this session's."""
        if self._began is None or requests <= self._began[1]:
            # Of a first batch nobody knows how long it took.
            if requests:
                self._began = (now if self._began is None else self._began[0]), requests, done
            return None
        began, _, done_before = self._began
        return (done - done_before) / (now - began) if done > done_before and now > began else None


ProgressListener = Callable[[RunProgress], object]


def ignore_progress(state: RunProgress) -> None:
    """A listener that does nothing."""


def progress_of(
    plan: RunPlan, listener: ProgressListener, *, of_worker: bool = False
) -> ProgressCallback:
    """A callback for drivers: it adds up what happened and tells the listener, once before anything has happened.

    With `of_worker` the total is the share of the plan's worker, not that of all workers."""
    if listener is ignore_progress:
        return lambda update: None
    [model] = plan.question.models
    total, different = count_to_ask(plan, of_worker=of_worker)
    state = RunProgress(
        model, str(plan.folder), 0, total, different=different if different != total else 0
    )
    listener(state)

    def update_state(update: ProgressUpdate) -> None:
        nonlocal state
        state = RunProgress(
            state.model,
            state.folder,
            state.done + update.questions,
            state.total,
            state.requests + update.requests,
            state.failures + update.failures,
            state.different,
        )
        listener(state)

    return update_state
