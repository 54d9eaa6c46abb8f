"""ReForm-Eval's published data: all 61 files in miniature, in both variants, and from a hub's cache."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import mini_hub
import reform
import small
import test_reform_classes as classes
import test_reform_inference as inference
import test_reform_spatial as spatial
from mini_text import textcaps
from place_servers import HubServer, Repo
from snellen.api import build, evaluate
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries, suites
from snellen.catalogue.places import HubSource
from snellen.errors import DataError, NoSourceError, UnknownNameError
from snellen.fetching.sources import COPIED_SOURCE, copy_source, fetch_source, source_places
from snellen.runs.run_folder import read_manifest
from snellen.suites.reform_eval.published import (
    importable_benchmarks,
    instructions,
    published_entries,
)
from test_fetching import point_at

COUNT = 8
COMMIT = "a" * 40
WORDS = ("cat", "dog", "cow", "hen", "pig", "fox", "owl", "bee")
INSTRUCTS = ["Answer this.", "Tell me."]


def picture(number: int) -> str:
    return base64.b64encode(small.picture(number, "JPEG", (60, 50))).decode()


def four(number: int) -> list[str]:
    return [WORDS[(number + place) % 8] for place in range(4)]


def core(number: int, **fields: Any) -> dict[str, Any]:
    return {"question_id": f"q{number}", "image": picture(number), **fields}


def miniature(name: str, folder: Path) -> Path:
    """The files of one benchmark with eight records, as they are published. The gold is option `number % 4`."""
    entry = published_entries()[name]
    contents = list(_FORMS[entry.form](name))
    for file, content in zip(entry.files, contents, strict=True):
        reform.write_json(folder / file, content)
    return folder


def _wrapped(records: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {"version": "2.0", "split": "val", **fields, "data": records}


def _vqa(name: str) -> Iterator[Any]:
    records = []
    for n in range(COUNT):
        record = {
            "question_id": n,
            "image_id": picture(n),
            "question": f"What is {n}?",
            "answer": four(n)[n % 4],
        }
        if name == "a-okvqar":
            reasons = [f"It is like a {word}." for word in four(n)]
            record |= {"rationale": reasons[n % 4], "rationale_options": reasons}
        else:
            record["answer_options"] = four(n)
        record |= {"context": "Some text."} if name == "k-viquae" else {}
        record |= {"rationale": ["It barks."]} if name == "a-okvqra" else {}
        records.append(record)
    yield _wrapped(records)


def _vqa_open(name: str) -> Iterator[Any]:
    yield {
        "version": 1.0,
        "data": [
            {
                "question_id": n,
                "image_id": picture(n),
                "question": "What is written?",
                "answer": [WORDS[n], "other"],
            }
            for n in range(COUNT)
        ],
    }


def _claim(name: str) -> Iterator[Any]:
    options = ["supported", "refuted", "not enough information"]
    yield _wrapped(
        [
            {
                "instance_id": n,
                "image_id": picture(n),
                "claim": f"It is {n}.",
                "text_evidence": "Seen.",
                "answer": options[n % 3],
                "answer_options": options,
            }
            for n in range(COUNT)
        ]
    )


def _core_choice(name: str) -> Iterator[Any]:
    boxes = {"mscoco-goi": [5, 5, 20, 20], "mscoco-mos": [[5, 5, 20, 20], [30, 5, 20, 20]]}.get(
        name
    )
    asked = {"vsr": "question", "mp3d-spatial": "questions"}.get(name)
    yield _wrapped(
        [
            core(
                n,
                **(
                    {asked: [f"Where is {n}?", f"In which place is {n}?"]}
                    if asked
                    else {"question": f"Where is {n}?"}
                ),
                answer=n % 4,
                answer_options=four(n),
                **({"bbox": boxes} if boxes else {}),
            )
            for n in range(COUNT)
        ],
        instructs=INSTRUCTS,
    )


def _core_open(name: str) -> Iterator[Any]:
    boxes = {
        "textocr": [5, 5, 20, 20],
        "gic15": [5, 5, 25, 25],
        "gcoco-text": [5, 5, 20, 20],
        "gtextocr": [5, 5, 9, 9],
    }
    questions: Any = (
        "What is the total?"
        if name in ("funsd", "poie", "sroie")
        else ["Read it.", "What does it say?"]
    )
    box = {"bbox": boxes[name]} if name in boxes else {}
    yield _wrapped(
        [
            core(
                n, question=questions, answer_txt=[WORDS[n], "word"] if n == 1 else WORDS[n], **box
            )
            for n in range(COUNT)
        ],
        instructs=INSTRUCTS,
    )


def _sampled(name: str) -> Iterator[Any]:
    def record(n: int) -> dict[str, Any]:
        fields: dict[str, dict[str, Any]] = {
            "mscoco-itm": {"anno": f"A {WORDS[n]}.", "gt": n % 2},
            "mscoco-its": {"anno": [f"A {word}." for word in four(n)], "gt": n % 4},
            "snli-ve": {"anno": f"There is a {WORDS[n]}.", "gt": n % 3},
            "wikihow": {
                "method": "Feed it",
                "title": "x",
                "options": [f"Get a {w}." for w in four(n)],
                "gt": n % 4,
            },
            "medic-dts": {"options": [*WORDS[:7]], "gt": n % 7},
            "refcoco-res": {"id": n, "region": [[5, 5, 30, 30]], "options": four(n), "gt": n % 4},
        }
        return {
            "img": picture(n),
            **fields.get(name, {"annos": [f"A {WORDS[n]} stands.", f"One {WORDS[n]}."]}),
        }

    yield {"dataset_name": name, "data": [record(n) for n in range(COUNT)]}


def _list(name: str) -> Iterator[Any]:
    yield [
        {
            "id": n,
            "image": picture(n),
            "question": "What is it?",
            "answer": n % 4,
            "options": four(n),
        }
        for n in range(COUNT)
    ]


def _count(name: str) -> Iterator[Any]:
    yield [
        {
            "Image_ID": picture(n),
            "Question": f"How many of {n}?",
            "Answer": str(n % 6 + 1),
            "Resolved_COCO_category": "cat",
        }
        for n in range(COUNT)
    ]
    yield {"choice": [1, 2, 3, 4, 5, 6]}


def _tdiuc(name: str) -> Iterator[Any]:
    """All tasks share one pair of files."""
    kinds = [
        *(entry.type for entry in published_entries().values() if entry.form == "tdiuc"),
        "other",
    ]
    asked = [(COUNT * place + n, kind) for place, kind in enumerate(kinds) for n in range(COUNT)]
    yield [
        {"question_id": n, "image_id": picture(n), "question": f"What is {n}?"} for n, _ in asked
    ]
    yield [
        {
            "question_id": n,
            "question_type": kind,
            "ans_source": "x",
            "answers": [{"answer": WORDS[n % 8]}],
        }
        for n, kind in asked
    ]
    yield {"choice": list(WORDS)}


def _dialogue(name: str) -> Iterator[Any]:
    dialogs = [
        {
            "image_id": n,
            "image_base64": picture(n),
            **({"caption": f"A {WORDS[n]}."} if name == "visdial" else {}),
            "dialog": [
                {
                    "question": r,
                    "answer": (n + r) % 8,
                    "answer_options": [(n + r + d) % 8 for d in (2, 0, 1, 3)],
                }
                for r in range(3)
            ],
        }
        for n in range(COUNT)
    ]
    yield {
        "version": "v1",
        "split": "val",
        "data": {
            "questions": ["what is it", "Is it big?", "And old?"],
            "answers": list(WORDS),
            "dialogs": dialogs,
        },
    }


_FORMS = {
    "vqa": _vqa,
    "vqa-open": _vqa_open,
    "claim": _claim,
    "core-choice": _core_choice,
    "core-open": _core_open,
    "list": _list,
    "count": _count,
    "tdiuc": _tdiuc,
    "dialogue": _dialogue,
    **dict.fromkeys(
        [
            "sampled-match",
            "sampled-texts",
            "sampled-entailment",
            "sampled-region",
            "sampled-options",
            "sampled-captions",
            "sampled-captions-with-text",
        ],
        _sampled,
    ),
}


def in_the_cache(names: Iterable[str], to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of benchmarks in a cache of the hub at `to`, and no network."""
    from huggingface_hub import constants

    repo = to / "hub" / "datasets--Aweminus--ReForm-Eval-Data"
    for name in names:
        miniature(name, repo / "snapshots" / COMMIT / "huggingface_data")
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(COMMIT)
    monkeypatch.setenv("SNELLEN_HOME", str(to / "home"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(to / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def imported(name: str, source: Path, to: Path, images: Path | None = None) -> Benchmark:
    [spec] = importable_benchmarks(source, [name], images)
    return build(spec, source=source, to=to / name)


def test_the_data_hold_the_61_benchmarks_of_the_catalogue() -> None:
    assert len(published_entries()) == 61
    assert {spec.short for spec in suites()["reform-eval"]} == set(published_entries())


@pytest.mark.parametrize("name", sorted(published_entries()))
def test_each_file_goes_through_build_run_and_score(name: str, tmp_path: Path) -> None:
    benchmark = imported(name, miniature(name, tmp_path / "data"), tmp_path)
    assert benchmark.manifest.counts.samples == COUNT
    # Each record has its own image, whether its regions are drawn or not.
    assert benchmark.manifest.counts.images == COUNT
    reform.holds_together(benchmark, tmp_path / "runs")


def test_golds_are_those_of_the_records(tmp_path: Path) -> None:
    from snellen.scoring.answers import open_answers

    for name, wanted in {
        "vsr": [n % 4 for n in range(COUNT)],
        "snli-ve": [n % 3 for n in range(COUNT)],
        "mscoco-itm": [n % 2 for n in range(COUNT)],
        "medic-dts": [n % 7 for n in range(COUNT)],
    }.items():
        benchmark = imported(name, miniature(name, tmp_path / name), tmp_path / "built")
        answers = open_answers(benchmark.folder)
        assert [
            answers[s.id, 0].options[0] for s in sorted(benchmark.samples(), key=lambda s: s.id)
        ] == wanted


def test_a_gold_without_a_letter_counts_as_published_and_has_no_value_by_other_metrics(
    tmp_path: Path,
) -> None:
    data = miniature("funsd", tmp_path / "data")
    path = data / published_entries()["funsd"].files[0]
    content = json.loads(path.read_text())
    content["data"][2]["answer_txt"] = "-"
    path.write_text(json.dumps(content))
    benchmark = imported("funsd", data, tmp_path)
    results = evaluate("snellen:oracle", str(benchmark.folder), runs=tmp_path, name="run")
    found = {
        row.metric: row.estimate
        for row in results.rows
        if row.benchmark == benchmark.name and not row.slice
    }
    assert (found["legacy_ocr_match"].n, found["legacy_ocr_match"].unscored) == (COUNT, 0)
    assert (found["word_accuracy"].n, found["word_accuracy"].unscored) == (COUNT - 1, 1)


def test_wordings_and_instructions_of_a_file_are_kept(tmp_path: Path) -> None:
    data = miniature("vsr", tmp_path / "data")
    benchmark = imported("vsr", data, tmp_path)
    assert instructions(data, "vsr") == tuple(INSTRUCTS) == benchmark.spec.instructions
    assert {sample.rewordings for sample in benchmark.samples()} == {
        (f"In which place is {n}?",) for n in range(COUNT)
    }
    evaluate("snellen:oracle", str(benchmark.folder), templates="data", runs=tmp_path, name="run")
    journal = (tmp_path / "run" / "journal-0.jsonl").read_text()
    for instruct in INSTRUCTS:
        assert f"{instruct}\\n" in journal
    assert "Where is 0? Options:" in journal and "In which place is 0? Options:" in journal


def test_context_and_reasons_reach_the_question(tmp_path: Path) -> None:
    def first(name: str) -> Any:
        return next(
            iter(imported(name, miniature(name, tmp_path / name), tmp_path / "built").samples())
        )

    assert first("k-viquae").context == "Some text."
    assert first("a-okvqra").context == "Explanation: It barks."
    assert first("a-okvqar").question.endswith("The answer is cat. Why?")
    assert first("visdial").context == "A cat."
    assert first("visdial").turns[0].question == "what is it?"


def test_the_raw_variant_takes_pictures_from_a_folder(tmp_path: Path) -> None:
    data = miniature("okvqa".replace("okvqa", "ok-vqa"), tmp_path / "data")
    path = data / published_entries()["ok-vqa"].files[0]
    content = json.loads(path.read_text())
    for number, record in enumerate(content["data"]):
        record["image_id"] = number + 1
        reform.write_picture(tmp_path / "val2014" / f"COCO_val2014_{number + 1:012d}.jpg", number)
    path.write_text(json.dumps(content))
    assert imported("ok-vqa", data, tmp_path, tmp_path / "val2014").manifest.counts.images == COUNT
    with pytest.raises(
        DataError, match=r"data\[0\]: the image '1' is not in .*; name the folder .* images="
    ):
        imported("ok-vqa", data, tmp_path / "again")


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        (
            "vsr",
            '"answer": 1',
            '"answer": 4',
            r"vsr_core_multiple_choice.json: data\[1\]: answer 4 but options are 0-3",
        ),
        (
            "gqa",
            '"answer": "cat"',
            '"answer": "yak"',
            r"gqa_testdev_10p.json: data\[0\]: the answer 'yak' is none of",
        ),
        (
            "visdial",
            '"answer": 1,',
            '"answer": 7,',
            r"data.dialogs\[0\]: answer 7 is none of its options",
        ),
        (
            "pets37",
            '"options": [',
            '"choices": [',
            r"pets37_test_10p.json: \[0\]: .*missing required field `options`",
        ),
        (
            "mscoco-goi",
            '"bbox": [5, 5, 20, 20]',
            '"bbox": [5, 5]',
            r"data\[0\]: \[5, 5\] is neither a box nor",
        ),
        (
            "refcoco-res",
            '"region": [[5, 5, 30, 30]]',
            '"region": [[5, 5]]',
            r"data\[0\]: \[\[5, 5\]\] is neither a box nor",
        ),
        (
            "vsr",
            '"question": ["Where is 0?", "In which place is 0?"]',
            '"question": []',
            r"data\[0\]: there is no question",
        ),
        ("snli-ve", '"anno": "There is a cat."', '"anno": []', r"data\[0\]: there is no text"),
        (
            "nocaps",
            '"annos": ["A cat stands.", "One cat."]',
            '"annos": []',
            r"data\[0\]: there is no caption",
        ),
    ],
)
def test_a_broken_record_is_refused_with_file_and_place(
    name: str, old: str, new: str, fault: str, tmp_path: Path
) -> None:
    data = miniature(name, tmp_path / "data")
    reform.broken(data / published_entries()[name].files[0], old, new)
    with pytest.raises(DataError, match=fault):
        imported(name, data, tmp_path)


def test_questions_about_regions_of_one_picture_are_one_group(tmp_path: Path) -> None:
    data = miniature("mscoco-goi", tmp_path / "data")
    path = data / published_entries()["mscoco-goi"].files[0]
    content = json.loads(path.read_text())
    for number, record in enumerate(content["data"]):
        record["image"], record["bbox"] = picture(number // 2), [5 + number, 5, 20, 20]
    path.write_text(json.dumps(content))
    benchmark = imported("mscoco-goi", data, tmp_path)
    assert benchmark.manifest.counts.images == COUNT
    assert len({sample.group for sample in benchmark.samples()}) == COUNT // 2


def test_published_data_and_official_files_are_asked_in_the_same_words(tmp_path: Path) -> None:
    """The same benchmark by either way: what names no object, caption or claim is word for word the same."""
    makers: dict[str, Callable[[Path], object]] = {
        "medic-dts": classes.medic_dts,
        "refcoco-res": spatial.refcoco,
        "mscoco-its": inference.coco,
        "textcaps": textcaps,
    }
    for name, make in makers.items():
        make(tmp_path / "official" / name)
        official = reform.made(name, tmp_path / "official" / name, tmp_path / "built")
        one = imported(name, miniature(name, tmp_path / "data"), tmp_path / "imported")
        assert {s.question for s in official.samples()} == {s.question for s in one.samples()}, name


def test_a_record_with_the_same_option_twice_is_left_out_and_counted(tmp_path: Path) -> None:
    data = miniature("gqa", tmp_path / "data")
    reform.broken(
        data / published_entries()["gqa"].files[0],
        '"answer_options": ["cat", "dog"',
        '"answer_options": ["cat", "cat"',
    )
    benchmark = imported("gqa", data, tmp_path)
    assert benchmark.manifest.counts.samples == COUNT - 1
    assert (
        "gqa_testdev_10p.json: 1 skipped: two of its options are the same"
        in benchmark.manifest.warnings
    )


# --- the door ----------------------------------------------------------------------------------------------------


def test_one_command_imports_all_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("vsr", "snli-ve"):
        miniature(name, tmp_path / "data" / "huggingface_data")
    code, shown, _ = small.command(capsys, "import", "reform-eval", str(tmp_path / "data"))
    assert code == 0 and "built reform-eval/vsr" in shown and "built reform-eval/snli-ve" in shown
    asked = [
        "reform-eval",
        "--runs",
        str(tmp_path / "runs"),
        "--templates",
        "data",
        "--name",
        "both",
    ]
    code, _, said = small.command(capsys, "run", "snellen:oracle", *asked)
    # Of the suite what is built is asked, what cannot be fetched is named, and the exit code says so.
    assert (
        code == 3 and "skipped from reform-eval, because they are not built yet: a-okvqa, " in said
    )
    assert {use.name for use in read_manifest(tmp_path / "runs" / "both").benchmarks} == {
        "reform-eval/vsr",
        "reform-eval/snli-ve",
    }
    code, _, said = small.command(capsys, "run", "snellen:oracle", "reform-eval/gqa")
    assert code == 2 and "reform-eval/gqa cannot be fetched: Aweminus/ReForm-Eval-Data" in said
    assert (
        "is not in the hub's cache, and HF_HUB_OFFLINE is" in said
        and "a machine with network access (`snellen fetch`)" in said
    )


def test_files_come_from_the_hubs_cache_when_there_is_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_the_cache(["vsr"], tmp_path, monkeypatch)
    code, shown, said = small.command(capsys, "import", "reform-eval", "--hub", "vsr")
    assert code == 0 and f"at commit {COMMIT}" in said and "built reform-eval/vsr" in shown
    code, _, said = small.command(
        capsys, "import", "reform-eval", "--hub", "--revision", "b" * 40, "vsr"
    )
    assert code == 2 and "is not in the hub's cache, and HF_HUB_OFFLINE is set" in said


@pytest.mark.parametrize("name", sorted(published_entries()))
def test_each_benchmark_is_fetched_from_it_and_built_as_import_builds_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_cache([name], tmp_path, monkeypatch)
    fetched = build(f"reform-eval/{name}").manifest
    by_import = imported(name, miniature(name, tmp_path / "data"), tmp_path).manifest
    assert (fetched.version, fetched.questions) == (by_import.version, by_import.questions)
    [place] = fetched.spec.source.places
    assert replace(fetched.spec, source=replace(fetched.spec.source, places=())) == by_import.spec
    # It says which of its constructions it is.
    assert isinstance(place, HubSource)
    assert (place.repo, place.revision, place.importer) == (
        "Aweminus/ReForm-Eval-Data",
        COMMIT,
        "reform-eval",
    )
    assert (place.reader, place.params) == (
        by_import.spec.source.reader,
        by_import.spec.source.params,
    )


def test_a_run_fetches_and_builds_what_it_lacks_and_says_from_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_the_cache(["vsr"], tmp_path, monkeypatch)
    asked = (
        "reform-eval/vsr",
        "--runs",
        str(tmp_path / "runs"),
        "--templates",
        "data",
        "--name",
        "once",
    )
    code, _, said = small.command(capsys, "run", "snellen:oracle", *asked)
    assert code == 0
    assert (
        "reform-eval/vsr is built from ReForm-Eval-Data (Aweminus/ReForm-Eval-Data), not from its official"
        in said
    )
    assert f"{INSTRUCTS[0]}\\n" in (tmp_path / "runs" / "once" / "journal-0.jsonl").read_text()


def test_official_files_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    official = mini_hub.snapshot("docvqa", tmp_path)
    in_the_cache(["docvqa"], tmp_path, monkeypatch)
    assert fetch_source(entries()["reform-eval/docvqa"]).folder == official
    shutil.rmtree(official)
    assert fetch_source(entries()["reform-eval/docvqa"]).folder.name == COMMIT


def test_files_of_the_benchmark_alone_are_asked_for_and_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_cache(["tdiuc-sport", "vsr"], tmp_path, monkeypatch)
    copy = copy_source(fetch_source(entries()["reform-eval/tdiuc-sport"]), tmp_path / "stick")
    found = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    files = {f"huggingface_data/{name}" for name in published_entries()["tdiuc-sport"].files}
    assert found == {*files, COPIED_SOURCE}
    # The cache has two of the three files of another task.
    with pytest.raises(NoSourceError, match=r"Aweminus/ReForm-Eval-Data is not in the hub's cache"):
        fetch_source(entries()["reform-eval/tdiuc-scene"])


def test_of_the_hub_only_the_benchmarks_own_files_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tdiuc-sport", "tdiuc-scene", "visdial"):
        miniature(name, tmp_path / "data")
    files = {
        f"huggingface_data/{at.relative_to(tmp_path / 'data')}": at.read_bytes()
        for at in tmp_path.rglob("*.json")
    }
    assert len(files) == 5
    with HubServer({"Aweminus/ReForm-Eval-Data": Repo(files)}) as hub:
        point_at(hub, tmp_path / "hub", monkeypatch)
        built = build("reform-eval/tdiuc-sport", to=tmp_path / "built")
        commit = hub.commit("Aweminus/ReForm-Eval-Data")
        fetched = {at.name for at in (tmp_path / "hub").rglob("*.json")}
    assert built.manifest.counts.samples == COUNT
    assert built.manifest.spec.hub.revision == commit
    assert fetched == {Path(file).name for file in published_entries()["tdiuc-sport"].files}


def test_every_benchmark_of_the_suite_has_it_as_its_last_place_or_its_first() -> None:
    for spec in suites()["reform-eval"]:
        places = source_places(spec)
        *earlier, last = (*places[1:], places[0]) if spec.source.written else places
        assert isinstance(last, HubSource) and last.repo == "Aweminus/ReForm-Eval-Data", spec.name
        assert tuple(spec.source.places) == tuple(earlier)
        assert [file.removeprefix("**") for file in last.files] == list(
            published_entries()[spec.short].files
        )


def test_a_folder_without_the_data_and_an_unknown_name_are_met_with_a_way_out(
    tmp_path: Path,
) -> None:
    with pytest.raises(
        DataError, match="no file of ReForm-Eval-Data is there; it has folders such as CLEVR"
    ):
        importable_benchmarks(tmp_path)
    with pytest.raises(UnknownNameError, match="did you mean vsr"):
        importable_benchmarks(tmp_path, ["vsrr"])


def test_what_is_carried_to_another_machine_is_read_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_cache(["vsr"], tmp_path, monkeypatch)
    fetched = fetch_source(entries()["reform-eval/vsr"])
    carried = copy_source(fetched, tmp_path / "stick")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
    there = build(entries()["reform-eval/vsr"], source=carried, to=tmp_path / "there")
    here = build_benchmark(fetched.spec, source=fetched.folder, to=tmp_path / "here")
    assert there.manifest.version == here.manifest.version
    assert (
        there.manifest.build_info.origin
        == f"ReForm-Eval-Data, Aweminus/ReForm-Eval-Data@{COMMIT[:7]} on the hub"
    )
