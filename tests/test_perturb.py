"""Degraded images: what is done to them, that a run keeps them apart, and what a dose costs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import snellen as sn
from snellen.analysis.dose_response import dose_responses, non_increasing_fit
from snellen.analysis.headline import protocol_preference
from snellen.common.degradation import DEGRADATIONS, degraded_ref
from snellen.common.images import ImageStore
from snellen.errors import UnknownNameError
from snellen.protocols import parse_protocol
from snellen.report.control_tables import control_tables
from snellen.report.degradation_tables import dose_panels
from snellen.report.drawing import ChartGroup, ChartLine
from snellen.report.reported_runs import prepare_reported_runs


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ImageStore:
    return ImageStore(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def picture() -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 40, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def _degraded(store: ImageStore, picture: Image.Image, **doses: float) -> np.ndarray:
    file = io.BytesIO()
    picture.save(file, "PNG")
    image = degraded_ref(store.put(file.getvalue(), "here"), doses)
    with Image.open(io.BytesIO(store.read(image))) as read:
        assert read.size == (image.width, image.height)
        return np.asarray(read.convert("RGB"), dtype=float)


@pytest.mark.parametrize("name", [name for name in DEGRADATIONS if name != "jpeg"])
def test_the_dose_of_nothing_changes_nothing(
    store: ImageStore, picture: Image.Image, name: str
) -> None:
    assert (
        _degraded(store, picture, **{name: DEGRADATIONS[name].none}) == np.asarray(picture)
    ).all()


def test_doses_do_what_their_words_say(store: ImageStore, picture: Image.Image) -> None:
    pixels = np.asarray(picture, dtype=float)
    noise = _degraded(store, Image.new("RGB", (200, 200), (128, 128, 128)), noise=10) - 128
    assert abs(noise.std() - 10) < 0.3 and abs(noise.mean()) < 0.2
    assert _degraded(store, picture, scale=0.5).shape == (30, 20, 3)
    assert (_degraded(store, picture, crop=0.5) == pixels[15:45, 10:30]).all()
    assert (np.ptp(_degraded(store, picture, grey=1), axis=2) == 0).all()
    assert abs(_degraded(store, picture, contrast=0.1).std() / pixels.std() - 0.1) < 0.01
    spread = [_degraded(store, picture, blur=sigma).std() for sigma in (0, 1, 2, 4)]
    assert spread == sorted(spread, reverse=True)
    edge = np.zeros((9, 101, 3), dtype=np.uint8)
    edge[:, 51:] = 255
    profile = np.diff(_degraded(store, Image.fromarray(edge), blur=4)[4, :, 0])
    places = np.arange(len(profile))
    mean = (profile * places).sum() / profile.sum()
    assert abs(np.sqrt((profile * (places - mean) ** 2).sum() / profile.sum()) - 4) < 0.4


def test_a_degraded_picture_is_the_same_each_time_and_has_a_name_of_its_own(
    store: ImageStore, picture: Image.Image
) -> None:
    first, again = (_degraded(store, picture, noise=20, jpeg=30) for _ in range(2))
    assert (first == again).all()
    file = io.BytesIO()
    picture.save(file, "PNG")
    image = store.put(file.getvalue(), "here")
    names = {
        degraded_ref(image, doses).digest for doses in ({"blur": 1}, {"blur": 2}, {"noise": 1})
    } | {image.digest}
    assert len(names) == 4
    assert degraded_ref(image, {"jpeg": 30, "blur": 1}) == degraded_ref(
        image, {"blur": 1, "jpeg": 30}
    )


@pytest.mark.parametrize(
    ("label", "fault"),
    [
        ("perturb", "needs a dose of"),
        ("perturb?blur=-1", "blur=-1 is not between 0 and 200"),
        ("perturb?blurr=1", "did you mean blur"),
        ("perturb?blur=1&of=perturb?blur=2", "is itself a control"),
    ],
)
def test_a_wrong_dose_is_refused(label: str, fault: str) -> None:
    with pytest.raises(UnknownNameError, match=fault):
        _ = parse_protocol(label).label


def test_labels_name_the_doses_and_the_other_protocol() -> None:
    for label in (
        "perturb?blur=2",
        "perturb?noise=5&jpeg=20",
        "perturb?scale=0.5&of=instability?m=3",
    ):
        assert parse_protocol(label).label == label


def test_a_model_sees_the_worse_picture_and_its_score_is_a_control(tmp_path: Path) -> None:
    """A model that reads an image's spread of grey: it is right only as long as the image is sharp."""
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    rows = []
    for number in range(40):
        pixels = np.random.default_rng(number).integers(0, 2, (64, 64), dtype=np.uint8) * 255
        Image.fromarray(pixels).save(pictures / f"{number}.png")
        rows.append(
            {
                "question": f"Is picture {number} rough?",
                "options": ["rough", "smooth"],
                "answer": "rough",
                "image": f"{number}.png",
            }
        )
    (tmp_path / "rough.jsonl").write_text("\n".join(map(json.dumps, rows)))
    built = sn.build(tmp_path / "rough.jsonl", images=pictures, to=tmp_path / "rough")
    seen: list[str] = []

    def scripted(request: sn.Request) -> str:
        [image] = request.images
        seen.append(image.shown_as)
        content = built.images.read(image)
        with Image.open(io.BytesIO(content)) as picture:
            spread = np.asarray(picture.convert("L"), dtype=float).std()
        return "rough" if spread > 20 else "smooth"

    results = sn.evaluate(
        sn.Scripted(scripted),
        str(built.folder),
        ["vanilla", "perturb?blur=1", "perturb?blur=8", "perturb?blur=16"],
        runs=tmp_path / "runs",
    )
    assert set(seen) == {"", "blur=1", "blur=8", "blur=16"}
    assert results.value("accuracy", protocol="vanilla", benchmark="rough") == 1.0
    assert results.value("accuracy", protocol="perturb?blur=8", benchmark="rough") == 0.0
    [scored] = results.runs[0].benchmarks
    [response] = dose_responses(scored)
    assert [point.dose for point in response.points] == [1, 8, 16]
    assert (response.clean, response.chance, response.points[1].value) == (1.0, 0.5, 0.0)
    # From 1 at a dose of 1 to 0 at 8, and 0.75 in between.
    assert response.half.value == pytest.approx(1 + 7 / 4)
    tables = {
        table.title: table
        for table in control_tables(prepare_reported_runs(results.runs, results.rows))
    }
    assert list(tables) == ["Loss from degraded images"]
    [panel] = dose_panels(prepare_reported_runs(results.runs, results.rows))
    marks = [
        shape for shape in panel.drawing.shapes if isinstance(shape, ChartGroup) and shape.tooltip
    ]
    assert [mark.tooltip for mark in marks if "half of the score" in mark.tooltip] == [
        f"{results.runs[0].manifest.model}: half of the score above chance is lost at 2.75 [2.75, 2.75]"
    ]
    assert len(marks) == 1 + 3 + 1, "clean images, three doses, and the half"
    whiskers = [
        shape
        for mark in marks
        for shape in mark.shapes
        if isinstance(shape, ChartLine) and "whisker" in shape.style
    ]
    assert len(whiskers) == 3 + 1, "the interval of each loss, and of the half"
    page = results.report(tmp_path / "report.html").read_text("utf-8")
    assert "rough, vanilla, blur: dose and score" in page
    protocols = [protocol for protocol, _, _ in scored.score_rows]
    assert min(protocols, key=protocol_preference) == "vanilla"


def test_a_curve_that_never_rises_is_the_nearest_one() -> None:
    assert non_increasing_fit([0.9, 0.5, 0.7, 0.2]) == pytest.approx([0.9, 0.6, 0.6, 0.2])
    assert non_increasing_fit([0.1, 0.2, 0.3]) == pytest.approx([0.2, 0.2, 0.2])
