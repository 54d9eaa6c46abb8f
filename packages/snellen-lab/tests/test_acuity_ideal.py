"""What a model's input allows: a reader by templates on the pixels that are left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from PIL import Image

from acuity import declared, read_by_templates, stimuli
from observers import Observer, measured, pool
from snellen.cli import cli
from snellen.errors import DataError
from snellen.models.hf.pixel_cache import PixelCache
from snellen.models.loading import load_model
from snellen.runs.spec import ScoringSpec
from snellen.scoring.run_scoring import score_run
from snellen_lab.acuity.acuity_run import IDEALS, AcuityRun, read_acuity
from snellen_lab.acuity.ideal import TemplateReader, ideal_threshold, shrinking_to
from snellen_lab.acuity.thresholds import Ideal, describe_input_limit


def as_it_is(picture: Image.Image) -> list[Any]:
    return [np.asarray(picture.convert("L"), float)]


def averaged(factor: int) -> Any:
    """A processor that makes a pixel of each square of so many."""

    def process(picture: Image.Image) -> list[Any]:
        [pixels] = as_it_is(picture)
        height, width = (length // factor for length in pixels.shape)
        return [
            pixels[: height * factor, : width * factor]
            .reshape(height, factor, width, factor)
            .mean(axis=(1, 3))
        ]

    return process


SIDE = 192
"""Of images here: large enough for the largest signs."""


@pytest.mark.parametrize(
    "name", ["letter-size", "landolt-size", "tumbling-e-size", "second-picture"]
)
def test_on_raw_pixels_it_reads_as_the_brute_force_reader_does(name: str) -> None:
    test = declared(name)
    assert test.signs is not None
    reader = TemplateReader(test.signs, as_it_is)
    for level in (2.5, 3, 4, 8, 24):
        for shown in stimuli(name, level, side=SIDE):
            number = len(shown.images) - 1
            brute = read_by_templates(shown, level, ring=name == "landolt-size", number=number)
            assert reader.read(shown, level) == brute, (level, shown.options, shown.right)


def test_a_processor_that_halves_the_picture_doubles_the_threshold() -> None:
    test = declared("letter-size")
    quarter, eighth = (ideal_threshold(test, averaged(factor), SIDE) for factor in (4, 8))
    assert quarter and eighth and quarter.verdict == eighth.verdict == "threshold"
    assert eighth.level / quarter.level == pytest.approx(2, rel=0.2)
    whole = ideal_threshold(test, as_it_is, SIDE)
    assert whole == Ideal(2.5, "sees all"), "the smallest letters that are drawn can be read"


def test_tiles_are_read_one_by_one_and_their_borders_cost_little() -> None:
    """Four tiles of the image in full size, after a small overview of it, as processors make them."""

    def tiled(picture: Image.Image) -> list[Any]:
        [pixels] = as_it_is(picture)
        [overview] = averaged(8)(picture)
        return [
            overview,
            *(half for row in np.split(pixels, 2) for half in np.split(row, 2, axis=1)),
        ]

    test = replace(declared("letter-size"), exemplars=4)
    overview, tiles = (ideal_threshold(test, process, SIDE) for process in (averaged(8), tiled))
    assert overview and tiles and tiles.level < 0.5 * overview.level


def test_a_declared_limit_of_size_gives_the_input_of_an_api() -> None:
    test = replace(declared("letter-size"), exemplars=8)
    whole, small, smaller = (
        ideal_threshold(test, shrinking_to(side), SIDE) for side in (SIDE, 48, 24)
    )
    assert whole == ideal_threshold(test, shrinking_to(4000), SIDE) == Ideal(2.5, "sees all")
    assert small and smaller and smaller.level / small.level == pytest.approx(2, rel=0.3)


@pytest.fixture
def forty(tmp_path: Path) -> AcuityRun:
    """One whose threshold is 40 px, behind an API that reduces images of 168 px to 32."""
    return measured(Observer(40.0, name="forty"), tmp_path, budget=24, input_side=32)


def test_what_an_input_allows_is_kept_with_the_run_and_shown_where_runs_are_compared(
    forty: AcuityRun, tmp_path: Path
) -> None:
    [threshold] = forty.thresholds
    ideal = forty.ideals["acuity/letter-size"]
    assert threshold.ideal == ideal and threshold.value
    words = (
        f"{threshold.value / ideal.level:.2g} times what its input allows ({ideal.level:.3g} px)"
    )
    assert describe_input_limit(threshold) == words
    another = measured(Observer(40.0, name="another"), tmp_path, budget=24)
    assert another.thresholds[0].ideal is None and describe_input_limit(another.thresholds[0]) == ""
    assert read_acuity(score_run(forty.folder, ScoringSpec())).thresholds == forty.thresholds
    compared = CliRunner().invoke(cli, ["compare", str(forty.folder), str(another.folder)])
    assert words in compared.output


def test_what_an_input_allows_is_measured_once_for_each_side(
    forty: AcuityRun, tmp_path: Path
) -> None:
    file, level = forty.folder / IDEALS, forty.ideals["acuity/letter-size"].level
    file.write_text(file.read_text("utf-8").replace(f'"level":{level}', '"level":99.0'))
    again, whole = (
        measured(Observer(40.0, name="forty"), tmp_path, budget=24, input_side=side)
        for side in (32, 168)
    )
    assert again.ideals["acuity/letter-size"].level == 99, "what is kept is not measured again"
    assert whole.ideals["acuity/letter-size"] == Ideal(2.5, "sees all", 168), (
        "but for another side it is"
    )
    [threshold] = whole.thresholds
    assert describe_input_limit(threshold).startswith(
        "more than "
    ) and "(2.5 px or less)" in describe_input_limit(threshold)
    file.write_text("{")
    with pytest.raises(DataError, match=r"input-allows\.json: .*delete it"):
        read_acuity(score_run(forty.folder, ScoringSpec()))


@pytest.mark.parametrize(
    ("name", "height"), [("resolution", 16.0), ("noise", 64.0), ("shape-contrast", 96.0)]
)
def test_tests_of_signs_of_another_height_have_an_ideal(name: str, height: float) -> None:
    test = replace(declared(name), exemplars=4)
    assert test.height(256) == height
    full, small = (ideal_threshold(test, shrinking_to(side)) for side in (768, 32))
    assert full and small and full.level <= 1.1 * small.level and full.verdict != "sees none"


def test_a_test_without_signs_and_a_processor_without_tiles_have_no_ideal() -> None:
    assert ideal_threshold(declared("crowding"), as_it_is) is None
    assert ideal_threshold(declared("letter-size"), lambda picture: []) is None


def test_patches_of_qwen2_vl_are_put_together_again() -> None:
    transformers = pytest.importorskip("transformers")
    processor = transformers.Qwen2VLImageProcessorPil()
    ramp = np.add.outer(np.arange(112), 2 * np.arange(168)).astype(np.uint8)
    [pixels] = PixelCache(processor, 1, {}).tiles(Image.fromarray(np.dstack([ramp, ramp, ramp])))
    assert pixels.shape == (3, 112, 168), "28 px make a block: nothing is resized"
    shown = pixels[0] * processor.image_std[0] + processor.image_mean[0]
    assert np.abs(shown * 255 - ramp).max() < 0.01


def test_an_embedded_model_shows_the_pixels_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """snellen:tiny is given 64 x 64 pixels, a seventh of the tests' images."""
    pytest.importorskip("transformers")
    model: Any = load_model("snellen:tiny")
    [pixels] = model.seen_pixels(Image.new("RGB", (448, 448), (255, 0, 0)))
    assert pixels.shape == (3, 64, 64) and pixels[0].min() > pixels[1].max()
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(
        cli, ["acuity", "snellen:tiny", "--test", pool("letter-size"), "--budget", "6"]
    )
    assert outcome.exit_code == 0 and "its input allows " in outcome.output
