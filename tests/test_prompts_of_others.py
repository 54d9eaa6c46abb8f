"""Sets of prompts that entries declare: byte for byte what the others' own code sends (bench/prompts_of_others.py)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import mmbench_rows
import modern_metric_tables
import modern_tables
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import ImageLimits, PromptSet, entries
from snellen.catalogue.published_number import OWN_WORDING
from snellen.errors import DataError, UnknownNameError
from snellen.protocols.choice import Vanilla
from snellen.protocols.prompts.rendering import PromptRenderer, within_limits
from snellen.protocols.prompts.templates import declared_templates
from snellen.records import ImagePart, ImageRef, Request, Sample
from snellen.runs.finding import benchmarks_without_prompts, prompts_of
from snellen.runs.journal import read_exchanges
from snellen.runs.plan import RunPlan, plan_run, prompt_of
from snellen.runs.spec import run_spec

RECORDS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "prompts_of_others.json").read_text()
)
RECORDED = [(name, benchmark) for name, records in RECORDS.items() for benchmark in records]
MMBENCH = [
    mmbench_rows.row(1, hint="Seen on a farm."),
    mmbench_rows.row(2, options=("yes", "no")),
    mmbench_rows.row(3, options=("a cat", "a dog", "a cow")),
]
"""Bytes that others recorded are of these rows and of the miniatures in `modern_tables`."""


def built(name: str, folder: Path) -> Benchmark:
    spec = entries()[name]
    if spec.suite == "mmbench":
        folder.mkdir(exist_ok=True)
        mmbench_rows.write(MMBENCH, folder / spec.source.params["files"][0])
        return build_benchmark(spec, source=folder, to=folder / "built")
    tables = modern_tables if spec.short in modern_tables.TABLES else modern_metric_tables
    source = tables.write(spec.short, folder / "hub")
    return build_benchmark(spec.from_hub(), source=source, to=folder / "built")


def planned(folder: Path, templates: str, **asked: Any) -> RunPlan:
    fields = {"models": ("snellen:oracle",), "benchmarks": (str(folder),), "templates": templates}
    return plan_run(run_spec({**fields, **asked}))


def asked_once(sample: Sample, prompt: PromptRenderer) -> Request:
    [request] = next(Vanilla().ask(sample, prompt))
    return request


def shown(request: Request, sample: Sample) -> list[str | int]:
    """The parts of a request of one message: texts, and images by their places among the sample's."""
    [message] = request.messages
    return [
        1 + sample.images.index(part.image) if isinstance(part, ImagePart) else part.text
        for part in message.content
    ]


LONGEST_BY_DEFAULT = 1024
"""The longest reply of lmms-eval's adapters (lmms_eval/models/simple/llava.py) in a task that sets none."""


@pytest.mark.parametrize(("name", "benchmark"), RECORDED)
def test_a_set_sends_what_the_others_code_sends(name: str, benchmark: str, tmp_path: Path) -> None:
    asked, record = built(benchmark, tmp_path / "mini"), RECORDS[name][benchmark]
    plan = planned(asked.folder, name)
    samples = {sample.id: sample for sample in asked.samples()}
    requests = {
        sample.id: asked_once(sample, prompt_of(asked.spec, sample.formulation, Vanilla(), plan))
        for sample in samples.values()
    }
    assert {key: shown(requests[key], samples[key]) for key in record["requests"]} == record[
        "requests"
    ]
    wanted = record.get("decoding", {"max_new_tokens": 0, "temperature": 0, "stop": []})
    for decoding in (request.decoding for request in requests.values()):
        if wanted["max_new_tokens"]:
            assert decoding.max_new_tokens == wanted["max_new_tokens"]
        else:
            assert decoding.max_new_tokens in (asked.spec.max_new_tokens, LONGEST_BY_DEFAULT)
        assert (decoding.temperature, list(decoding.stop)) == (
            wanted["temperature"],
            wanted["stop"],
        )


UNRECORDED = {
    ("official", "modern/pope"),
    ("official", "modern/realworldqa"),
    ("official", "mmbench/dev-en"),
}
"""What the authors' own files say, or their toolkit, whose code is recorded under its own name."""
FILES_OWN_WORDS = ("cc-ocr-languages", "cc-ocr-scenes", "vlms-are-biased", "vlmsareblind")
"""Their official set is the question as the file has it."""
READ_ONLY = (
    *(
        "activitynet-qa",
        "longvideobench",
        "lvbench",
        "pixmo-count",
        "vlmsareblind",
        "3dsrbench",
        "crpe-relation",
    ),
    *("mme-realworld", "mme-realworld-cn", "mme-realworld-lite", "mmsi-bench", "mtvqa"),
    *("omnispatial", "viewspatial", "visualpuzzles"),
    *(f"mmmb-{language}" for language in ("ar", "cn", "en", "pt", "ru", "tr")),
    *(f"mmbench-multilingual-{language}" for language in ("ar", "cn", "en", "pt", "ru", "tr")),
    *("r-bench-dis", "egoschema", "perceptiontest", "iconqa-choose-txt", "iconqa-fill-in-blank"),
    *(
        "tallyqa",
        "logicvista",
        "wemath",
        "zerobench",
        "nextqa-mc",
        "charades-sta",
        "odinw-13",
        "sun-rgb-d",
        "osworld-g",
        "mme-cot",
        "omnidocbench",
        "omnidocbench-zh",
    ),
    *("refcoco", "refcoco-testa", "refcoco-testb", "refcocog-val", "refcocog-test"),
    *(f"refcoco-plus-{part}" for part in ("val", "testa", "testb")),
)
"""Sets that were written from the others' code by reading it; what it sends is not recorded yet."""


def test_every_set_is_recorded_or_is_that_of_another_file_of_its_benchmark() -> None:
    declared = [(name, spec) for spec in entries().values() for name in spec.prompts]
    for name, spec in declared:
        if (name, spec.name) in {*RECORDED, *UNRECORDED}:
            continue
        if (
            spec.suite == "modern"
            and spec.name.endswith("-test")
            and spec.name != "modern/refcocog-test"
        ):
            # A split whose answers are hidden is asked as the one whose answers are known.
            assert spec.prompts[name] == entries()[spec.name.removesuffix("-test")].prompts[name]
            continue
        # Of the makers' code only the source is named; test_published_number.py has the wording.
        if name == "official" and spec.published and spec.published.prompt_source:
            continue
        if name == "official" and spec.short in FILES_OWN_WORDS:
            assert spec.prompts[name].layout["open"] == "{question}"
            continue
        if name != "official" and spec.short in READ_ONLY:
            continue
        twin = "mmbench/dev-cn" if name == "lmms-eval" and "-cn" in spec.name else "mmbench/dev-en"
        assert spec.suite == "mmbench" and spec.prompts[name] == entries()[twin].prompts[name]
    toolkit = entries()["mmbench/dev-en"].prompts
    assert toolkit["official"] == toolkit["vlmevalkit"]


def test_the_files_own_words_are_asked_as_they_are(tmp_path: Path) -> None:
    for name in ("pope", "realworldqa"):
        [table] = modern_tables.TABLES[name]
        benchmark = built(f"modern/{name}", tmp_path / name)
        plan = planned(benchmark.folder, "official")
        asked = {
            asked_once(sample, prompt_of(benchmark.spec, sample.formulation, Vanilla(), plan))
            .messages[0]
            .text
            for sample in benchmark.samples()
        }
        assert asked == {table.row(number)["question"] for number in range(table.rows)}


@pytest.mark.parametrize("as_published", [False, True])
def test_mmbench_is_asked_as_its_toolkit_asks(as_published: bool, tmp_path: Path) -> None:
    folder = built("mmbench/dev-en", tmp_path / "mini").folder
    plan = planned(folder, "", scoring={"as_published": as_published})
    spec = plan.benchmarks[0].benchmark.spec
    for sample in plan.benchmarks[0].benchmark.samples():
        request = asked_once(sample, prompt_of(spec, "choice", Vanilla(), plan))
        assert (
            shown(request, sample) == RECORDS["vlmevalkit"]["mmbench/dev-en"]["requests"][sample.id]
        )


def test_what_a_run_says_of_decoding_comes_before_what_a_set_says(tmp_path: Path) -> None:
    folder = built("modern/mm-vet", tmp_path / "mini").folder
    spec = entries()["modern/mm-vet"]
    usual = prompt_of(spec, "text", Vanilla(), planned(folder, "lmms-eval"))
    assert (usual.max_new_tokens, usual.decoding.temperature) == (1024, 0.2)
    own = prompt_of(
        spec,
        "text",
        Vanilla(),
        planned(folder, "lmms-eval", max_new_tokens=5, temperature=0.7, stop=("\n",)),
    )
    assert (own.max_new_tokens, own.decoding.temperature, own.decoding.stop) == (5, 0.7, ("\n",))


def test_a_run_that_says_greedy_overrules_a_set_and_has_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = built("modern/mm-vet", tmp_path / "mini").folder
    usual, greedy = planned(folder, "lmms-eval"), planned(folder, "lmms-eval", temperature=0)
    spec = usual.benchmarks[0].benchmark.spec
    assert prompt_of(spec, "text", Vanilla(), usual).decoding.temperature == 0.2
    assert prompt_of(spec, "text", Vanilla(), greedy).decoding.temperature == 0
    assert usual.execution.name != greedy.execution.name and greedy.templates.id.endswith(
        ", temperature 0"
    )
    # Where nothing else was to be sampled, saying so changes nothing.
    plain, said = planned(folder, "snellen"), planned(folder, "snellen", temperature=0, top_p=1)
    assert plain.execution.name == said.execution.name and plain.templates.id == said.templates.id


PICTURES = """
name = "own/pictures"
title = "Large and small pictures"
formulation = "choice"

[source]
reader = "table"
embedded = true
folder = "."
params = { file = "rows.jsonl" }

[prompts.small]
form = "letter"
images = { max_side = 100, max_pixels = 5000 }
"""


def test_a_set_limits_pictures_and_manifest_and_report_say_so(tmp_path: Path) -> None:
    sides = [(400, 200), (30, 300), (60, 40)]
    suite = tmp_path / "own"
    suite.mkdir()
    (suite / "pictures.toml").write_text(PICTURES)
    rows = [
        {"question": f"Which? {i}", "options": ["a", "b"], "answer": "a", "image": f"{i}.png"}
        for i in range(3)
    ]
    (suite / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for i, size in enumerate(sides):
        Image.new("RGB", size, (i, 0, 0)).save(suite / f"{i}.png")
    sn.add_suites(str(suite))
    results = sn.evaluate(
        "snellen:oracle", "own/pictures", templates="small", runs=tmp_path / "runs"
    )
    [run] = results.runs
    shown_sides = {}
    for exchange in read_exchanges(run.folder):
        [image] = exchange.request.images
        shown_sides[exchange.request.sample_id] = (image.width, image.height)
    assert sorted(shown_sides.values()) == [(10, 100), (60, 40), (100, 50)]
    line = "own/pictures: images of at most 5,000 pixels and 100 px per side (prompts small)"
    assert line in run.manifest.notes
    assert line in results.report(tmp_path / "report.html").read_text()


def test_a_set_takes_some_frames_of_each_clip_and_leaves_pictures_alone() -> None:
    def frames(count: int) -> list[ImageRef]:
        return [ImageRef(f"{count} {i}", "image/png", 8, 8, time=i / 2) for i in range(count)]

    still = ImageRef("still", "image/png", 8, 8)
    kept = within_limits((*frames(9), *frames(2), still, still), ImageLimits(frames=3))
    assert [image.digest for image in kept] == ["9 0", "9 4", "9 8", "2 0", "2 1", "still", "still"]
    assert within_limits((*frames(9), still), ImageLimits()) == (*frames(9), still)


def test_a_shrunk_picture_is_never_larger_than_it_may_be() -> None:
    for side in range(101, 400, 7):
        [image] = within_limits(
            (ImageRef("x", "image/png", side, side + 31),), ImageLimits(max_pixels=10_000)
        )
        assert 9_500 < image.width * image.height <= 10_000


def test_a_prompt_of_ones_own_is_asked_in_a_sets_layout(tmp_path: Path) -> None:
    benchmark = built("modern/ai2d", tmp_path / "mini")
    plan = planned(benchmark.folder, "vlmevalkit", prompt="Look. {question}")
    text = (
        asked_once(
            next(iter(benchmark.samples())), prompt_of(benchmark.spec, "choice", Vanilla(), plan)
        )
        .messages[0]
        .text
    )
    assert text.startswith("Question: Look. Which animal is number 0?\nOptions:\nA. cat\n")


def test_manifest_and_report_name_the_set(tmp_path: Path) -> None:
    folder = built("modern/ai2d", tmp_path / "mini").folder
    results = sn.evaluate(
        "snellen:oracle", str(folder), templates="lmms-eval", runs=tmp_path / "runs"
    )
    assert results.value("accuracy", benchmark="modern/ai2d") == 1.0
    [run] = results.runs
    assert run.manifest.templates.startswith("lmms-eval (")
    assert run.manifest.templates in results.report(tmp_path / "report.html").read_text()
    plain = sn.evaluate("snellen:oracle", str(folder), templates="snellen", runs=tmp_path / "runs")
    unnamed = sn.evaluate("snellen:oracle", str(folder), runs=tmp_path / "runs")
    # By default it is asked in the words of its published number, which are lmms-eval's too, but were not named.
    assert len({plain.runs[0].folder, unnamed.runs[0].folder, run.folder}) == 3
    assert unnamed.runs[0].manifest.templates.startswith("of entries (")


def test_a_benchmark_without_the_set_is_refused_with_those_it_has(tmp_path: Path) -> None:
    folder = str(built("modern/gqa", tmp_path / "mini").folder)
    with pytest.raises(
        DataError,
        match=r"modern/gqa has no set of prompts 'official'; it has lmms-eval, vlmevalkit$",
    ):
        planned(Path(folder), "official")
    with pytest.raises(UnknownNameError, match=r"vlmevalkitt.*vlmevalkit"):
        planned(Path(folder), "vlmevalkitt")


def test_a_wrong_layout_of_an_entry_is_refused_with_its_place() -> None:
    for layout, fault in (
        ({"header": ""}, r"unknown field 'header'; did you mean heading\?"),
        ({"label": "-"}, r"label = '-' must hold \{label\}"),
    ):
        with pytest.raises(DataError, match=rf"zoo/names: \[prompts.mine\].*{fault}"):
            declared_templates("mine", {"zoo/names": PromptSet("plain", layout)})


def test_benchmarks_of_a_suite_without_the_set_are_named_and_left_out(tmp_path: Path) -> None:
    lines: list[str] = []
    lacking = benchmarks_without_prompts(("modern",), "official", lines.append)
    specs = {spec.name: spec for spec in entries().values() if spec.suite == "modern"}
    assert lacking == tuple(
        name for name, spec in specs.items() if "official" not in prompts_of(spec)
    )
    [line] = lines
    assert "modern/gqa" in line and "modern/mmmu," not in line
    folders = tuple(
        str(built(f"modern/{name}", tmp_path / name).folder) for name in ("gqa", "pope")
    )
    plan = plan_run(
        run_spec({"models": ("snellen:oracle",), "benchmarks": folders, "templates": "official"})
    )
    assert [use.benchmark.name for use in plan.benchmarks] == ["modern/pope"]


def test_the_table_of_the_documentation_is_what_entries_declare() -> None:
    page = (Path(__file__).parents[1] / "docs/evidence/prompt-sets.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith(("| `modern/", "| `mmbench/"))]
    assert rows == list(table_rows())


def test_the_page_counts_whose_wording_entries_have() -> None:
    page = (Path(__file__).parents[1] / "docs/evidence/prompt-sets.md").read_text()
    assert whose_wording() in page


def whose_wording() -> str:
    """The sentence of the page that counts the wordings of the suite `modern`."""
    wordings: Counter[str] = Counter()
    own: list[str] = []
    for spec in entries().values():
        if spec.suite == "modern" and spec.published is not None:
            wordings[spec.published.wording] += 1
            if spec.published.wording == OWN_WORDING:
                own.append(f"`{spec.short}`")
    others = [
        f"{count} by {name}"
        for name, count in wordings.most_common()
        if name not in ("makers", OWN_WORDING)
    ]
    n_others = wordings.total() - wordings["makers"] - wordings[OWN_WORDING]
    return (
        f"Of the {wordings.total()} benchmarks of `modern`, a run without `--templates`, or with `--as-published`, asks "
        f"{wordings['makers']} in their makers' words, {n_others} in those of others ({', '.join(others)}), and {wordings[OWN_WORDING]} in Snellen's own "
        f"wording: {', '.join(own)}."
    )


SHOWN_SETS = ("official", "lmms-eval", "vlmevalkit")
"""Sets that have a column; others are named in the last one."""


def table_rows() -> Iterator[str]:
    for spec in sorted(entries().values(), key=lambda spec: spec.name):
        if spec.prompts and spec.suite in ("modern", "mmbench"):
            sets = (spec.prompts.get(name) for name in SHOWN_SETS)
            cells = [f"`{own.form}`{' +' if own.layout else ''}" if own else "" for own in sets]
            others = [f"`{name}`" for name in spec.prompts if name not in SHOWN_SETS]
            yield f"| `{spec.name}` | {' | '.join([*cells, ', '.join(others)])} |"
