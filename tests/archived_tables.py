"""Miniatures of datasets whose clips or images are files of their own or in archives, as the hub has them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

import clips
import mini_hub
import small
from modern_tables import ANIMALS, INT, ROWS, TEXTS, Row, ask, columns, letter, lettered

FRAMES = 40


@cache
def clip(number: int, suffix: str = ".mp4") -> bytes:
    """A clip that is no other's: it has so many frames more than the shortest."""
    with TemporaryDirectory() as folder:
        times = [(frame + number) / 10 for frame in range(FRAMES + number)]
        return clips.clip(Path(folder, f"clip{suffix}"), times).read_bytes()


def packed(path: Path, members: Mapping[str, bytes]) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    path.write_bytes(file.getvalue())


def rows(path: Path, types: dict[str, pa.DataType], row: Callable[[int], Row]) -> None:
    mini_hub.write(path, [row(number) for number in range(ROWS)], types)


def labelled(count: int = 4) -> list[str]:
    return [f"{letter(n)}. {ANIMALS[n]}" for n in range(count)]


def video_mme(to: Path) -> None:
    """Two questions a clip, clips in two archives, one of them no mp4."""
    rows(
        to / "videomme/test-00000-of-00001.parquet",
        {
            **columns(
                "video_id duration domain sub_category url videoID question_id task_type question answer"
            ),
            "options": TEXTS,
        },
        lambda n: {
            "video_id": f"{n // 2:03}",
            "duration": ("short", "medium", "long")[n % 3],
            "domain": "Knowledge",
            "sub_category": "Biology",
            "url": "https://www.youtube.com",
            "videoID": f"fFj-{n // 2}_",
            "question_id": f"{n // 2:03}-{n % 2 + 1}",
            "task_type": "Counting Problem",
            "question": ask(n),
            "options": labelled(),
            "answer": letter(n),
        },
    )
    packed(
        to / "videos_chunked_01.zip",
        {"data/": b"", "data/fFj-0_.mp4": clip(0), "data/fFj-1_.mp4": clip(1)},
    )
    packed(to / "videos_chunked_02.zip", {"data/fFj-2_.mkv": clip(2, ".mkv")})


def nextqa(to: Path) -> None:
    rows(
        to / "MC/test-00000-of-00001.parquet",
        {
            **dict.fromkeys("video frame_count width height answer qid".split(), INT),
            **columns("question type a0 a1 a2 a3 a4"),
        },
        lambda n: {
            "video": 4000 + n,
            "frame_count": FRAMES,
            "width": 160,
            "height": 96,
            "question": f"which animal is {n}",
            "answer": n % 5,
            "qid": n,
            "type": "TC",
            **{f"a{k}": ANIMALS[k] for k in range(5)},
        },
    )
    packed(to / "videos.zip", {f"NExTVideo/{4000 + n}.mp4": clip(n) for n in range(ROWS)})


def tempcompass(to: Path) -> None:
    rows(
        to / "multi-choice/test-00000-of-00001.parquet",
        columns("video_id question answer dim"),
        lambda n: {
            "video_id": f"{1000 + n}",
            "question": f"{ask(n)}\n{lettered('{}. ')}",
            "answer": labelled()[n % 4],
            "dim": "speed",
        },
    )
    packed(to / "tempcompass_videos.zip", {f"videos/{1000 + n}.mp4": clip(n) for n in range(ROWS)})


def vsi_bench(to: Path) -> None:
    """The last two ask for a number."""
    places = ("arkitscenes", "scannet", "scannetpp")
    rows(
        to / "test-00000-of-00001.parquet",
        {
            "id": INT,
            **columns("dataset scene_name question_type question ground_truth"),
            "options": TEXTS,
        },
        lambda n: {
            "id": n,
            "dataset": places[n % 3],
            "scene_name": f"scene{n}",
            "question": ask(n),
            "question_type": "object_rel_distance" if n < 4 else "object_abs_distance",
            "ground_truth": letter(n) if n < 4 else f"{n}.5",
            "options": labelled() if n < 4 else None,
        },
    )
    for place, name in enumerate(places):
        packed(to / f"{name}.zip", {f"{name}/scene{n}.mp4": clip(n) for n in range(place, ROWS, 3)})


def mvbench(to: Path) -> None:
    """One question a task, the clips beside the questions."""
    from snellen.catalogue import entries

    for number, (task, folder) in enumerate(
        entries()["modern/mvbench"].source.params["tasks"].items()
    ):
        name, options = f"{task}.mp4", list(ANIMALS[: 3 + number % 3])
        row = {
            "video": name,
            "question": ask(number),
            "candidates": options,
            "answer": options[number % 3],
        }
        (to / "json").mkdir(parents=True, exist_ok=True)
        (to / "json" / f"{task}.json").write_text(json.dumps([row]))
        (to / folder).mkdir(parents=True, exist_ok=True)
        (to / folder / name).write_bytes(clip(number))
    (to / "test.json").write_text("[]")


def egoschema(to: Path) -> None:
    rows(
        to / "Subset/test-00000-of-00001.parquet",
        {**columns("question_idx question video_idx answer"), "option": TEXTS},
        lambda n: {
            "question_idx": str(n),
            "question": ask(n),
            "video_idx": f"0074f737-{n}",
            "option": labelled(5),
            "answer": str(n % 5),
        },
    )
    for half in (0, 1):
        members = {
            f"videos/0074f737-{n}.{'MP4' if n == 3 else 'mp4'}": clip(n)
            for n in range(half, ROWS, 2)
        }
        packed(to / f"videos_chunked_{half + 1:02}.zip", members)


def perceptiontest(to: Path) -> None:
    rows(
        to / "mc_question_val/validation-00000-of-00001.parquet",
        {**columns("video_name question question_id answer_id area reasoning"), "options": TEXTS},
        lambda n: {
            "video_name": f"video_{n // 2}",
            "question": ask(n),
            "question_id": str(n % 2),
            "options": ANIMALS[:3],
            "answer_id": str(n % 3),
            "area": "physics",
            "reasoning": "descriptive",
        },
    )
    packed(to / "videos_chunked_01.zip", {f"videos/video_{n}.mp4": clip(n) for n in range(3)})


def mlvu(to: Path) -> None:
    rows(
        to / "data/test-00000-of-00001.parquet",
        columns("video_name question answer task_type"),
        lambda n: {
            "video_name": f"video_{n // 2}.mp4",
            "question": f"{ask(n)}\n{lettered('({}) ')}",
            "answer": letter(n),
            "task_type": "AO",
        },
    )
    packed(to / "video_part_1.zip", {f"video_{n}.mp4": clip(n) for n in range(3)})


def lvbench(to: Path) -> None:
    rows(
        to / "data/train-00000-of-00001.parquet",
        {**columns("video_path question answer"), "options": TEXTS},
        lambda n: {
            "video_path": f"v{n // 2}.mp4",
            "question": ask(n),
            "options": labelled(),
            "answer": letter(n),
        },
    )
    packed(to / "all_videos.zip", {f"v{n}.mp4": clip(n) for n in range(3)})


def video_mmmu(track: str) -> Callable[[Path], None]:
    """Clips in the folders of their fields; the last question of the track Adaptation is open."""

    def write_track(to: Path) -> None:
        is_adaptation = track == "Adaptation"
        rows(
            to / f"{track}/test-00000-of-00001.parquet",
            {**columns("id question answer question_type"), "options": TEXTS},
            lambda n: {
                "id": f"dev_Math_{n}",
                "question": ask(n),
                "options": [] if is_adaptation and n == ROWS - 1 else labelled(),
                "answer": "12" if is_adaptation and n == ROWS - 1 else letter(n),
                "question_type": "multiple-choice",
            },
        )
        packed(to / "Science.zip", {f"Science/dev_Math_{n}.mp4": clip(n) for n in range(ROWS)})

    return write_track


def charades_sta(to: Path) -> None:
    rows(
        to / "data/test-00000-of-00001.parquet",
        {**columns("video caption"), "timestamp": pa.list_(pa.float64())},
        lambda n: {
            "video": f"AO8RW{n // 2}.mp4",
            "caption": f"person opens door {n}",
            "timestamp": [1.5 + n, 3.25 + 2 * n],
        },
    )
    packed(to / "Charades_v1_480.zip", {f"Charades_v1_480/AO8RW{n}.mp4": clip(n) for n in range(3)})


def activitynet_qa(to: Path) -> None:
    rows(
        to / "data/test-00000-of-00001.parquet",
        columns("video_name question question_id answer type"),
        lambda n: {
            "video_name": f"1QI{n // 2}",
            "question": f"which animal is number {n}",
            "question_id": f"v_1QI{n // 2}_{n % 2}",
            "answer": ("yes", "3", "a dog", "cow", "no", "12")[n],
            "type": str(n),
        },
    )
    packed(to / "all_test.zip", {f"all_test/v_1QI{n}.mp4": clip(n) for n in range(3)})


def mmvu(to: Path) -> None:
    """Seven rows, of which one is open."""
    options = pa.struct([(letter(n, 5), pa.string()) for n in range(5)])
    table = [
        {
            "id": f"validation_{n}",
            "video_path": f"videos/Art/{n % 3}.mp4",
            "question_type": "open-ended" if n == ROWS else "multiple-choice",
            "question": ask(n),
            "answer": "a dog" if n == ROWS else letter(n, 5),
            "choices": {letter(k, 5): "" if n == ROWS else ANIMALS[k] for k in range(5)},
        }
        for n in range(ROWS + 1)
    ]
    types = {**columns("id video_path question_type question answer"), "choices": options}
    mini_hub.write(to / "data/validation-00000-of-00001.parquet", table, types)
    packed(to / "videos.zip", {f"videos/Art/{n}.mp4": clip(n) for n in range(3)})


def visulogic(to: Path) -> None:
    lines = [
        {
            "id": f"{n:05}",
            "image_path": f"images/{n:05}.png",
            "question": f"{ask(n)} A, B, C or D?",
            "label": letter(n),
        }
        for n in range(ROWS)
    ]
    (to / "data.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    packed(to / "images.zip", {f"images/{n:05}.png": small.picture(n + 1) for n in range(ROWS)})


def tomato(to: Path) -> None:
    rows(
        to / "data/test-00000-of-00001.parquet",
        {
            **columns("id question video_path reason_type demonstration_type"),
            "options": TEXTS,
            "answer": INT,
        },
        lambda n: {
            "id": str(n),
            "question": ask(n),
            "video_path": f"videos/human/v{n // 2}.mp4",
            "options": list(ANIMALS[:4]),
            "answer": n % 4,
            "reason_type": "rotation",
            "demonstration_type": "human",
        },
    )
    packed(to / "videos.zip", {f"videos/human/v{n}.mp4": clip(n) for n in range(3)})


def longvideobench(to: Path) -> None:
    """Clips are files in a folder; the last two options of every second row are N/A."""
    rows(
        to / "data/validation-00000-of-00001.parquet",
        {
            **columns("id video_path question option0 option1 option2 option3 option4"),
            **columns("correct_choice duration_group", INT),
            **columns("question_category"),
        },
        lambda n: {
            "id": f"q{n}",
            "video_path": f"v{n // 2}.mp4",
            "question": ask(n),
            **{
                f"option{place}": "N/A" if place > 2 and n % 2 else ANIMALS[place]
                for place in range(5)
            },
            "correct_choice": n % 3,
            "duration_group": 15,
            "question_category": "S2E",
        },
    )
    (to / "videos").mkdir()
    for number in range(3):
        (to / f"videos/v{number}.mp4").write_bytes(clip(number))


def chartmuseum(to: Path) -> None:
    """Images are files beside the table."""
    rows(
        to / "data/test-00000-of-00001.parquet",
        columns("image question answer reasoning_type source hash"),
        lambda n: {
            "image": f"images/{n:05}.png",
            "question": ask(n),
            "answer": str(2000 + n),
            "reasoning_type": "visual",
            "source": "https://example.org",
            "hash": f"h{n}",
        },
    )
    (to / "images").mkdir()
    for number in range(ROWS):
        (to / f"images/{number:05}.png").write_bytes(small.picture(number + 1))


MAKERS: dict[str, Callable[[Path], None]] = {
    "activitynet-qa": activitynet_qa,
    "charades-sta": charades_sta,
    "chartmuseum": chartmuseum,
    "longvideobench": longvideobench,
    "tomato": tomato,
    "lvbench": lvbench,
    "mmvu": mmvu,
    **{
        f"video-mmmu-{track.lower()}": video_mmmu(track)
        for track in ("Perception", "Comprehension", "Adaptation")
    },
    "egoschema": egoschema,
    "mlvu": mlvu,
    "mvbench": mvbench,
    "nextqa-mc": nextqa,
    "perceptiontest": perceptiontest,
    "tempcompass": tempcompass,
    "video-mme": video_mme,
    "visulogic": visulogic,
    "vsi-bench": vsi_bench,
}
"""By the short name of the entry: what writes its dataset into a folder."""
IMAGES = {"visulogic": "Maths", "chartmuseum": "Text"}
"""Those without clips, with their dimensions."""
VIDEOS = [name for name in MAKERS if name not in IMAGES]


def write(name: str, to: Path) -> Path:
    to.mkdir(parents=True, exist_ok=True)
    MAKERS[name](to)
    return to
