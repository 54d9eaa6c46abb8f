"""The transformers adapter, through the front door: tiny folders with random weights, no network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from snellen.errors import ModelError
from snellen.fetching.user_callbacks import UserCallbacks, using_callbacks
from snellen.installation import install_line
from snellen.models.base import Model
from snellen.models.loading import load_model
from snellen.records import Decoding, ImageRef, Message, Request, TextPart, Variant

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import tiny_archs
from tiny_archs import Pictures, ask

OPTIONS = ("red", "dark green", "no", "a very long answer indeed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_archs.save("LLaVA", tmp_path_factory.mktemp("llava"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load_model(f"hf:{folder}?batch_size=7")


@pytest.fixture(scope="module")
def alone(folder: Path) -> Model:
    return load_model(f"hf:{folder}?batch_size=1&scoring=exact")


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    return Pictures()


@pytest.fixture(scope="module")
def images(pictures: Pictures) -> list[ImageRef]:
    return [pictures.add(colour) for colour in ("red", "blue", "green")]


def questions(images: list[ImageRef], **fields: object) -> list[Request]:
    shown = [ask(f"What colour is it{' now' * i}?", images[i % 3], **fields) for i in range(8)]
    return [
        *shown,
        ask("Is there no picture?", **fields),
        ask("Two of them?", images[0], images[1], **fields),
    ]


def test_scores_do_not_depend_on_the_batch(
    model: Model, alone: Model, images: list[ImageRef], pictures: Pictures
) -> None:
    asked = questions(images, continuations=OPTIONS)
    together = model.loglikelihood(asked, pictures)
    for one, other in zip(together, alone.loglikelihood(asked, pictures), strict=True):
        assert [score.tokens for score in one.scores] == [score.tokens for score in other.scores]
        for a, b in zip(one.scores, other.scores, strict=True):
            assert abs(a.sum - b.sum) < 1e-4
    assert [score.bytes for score in together[0].scores] == [len(option) for option in OPTIONS]


def test_scores_depend_on_the_picture(
    model: Model, images: list[ImageRef], pictures: Pictures
) -> None:
    red, blue = model.loglikelihood(
        [ask("Which?", image, continuations=("red",)) for image in images[:2]], pictures
    )
    assert abs(red.scores[0].sum - blue.scores[0].sum) > 0.01


@pytest.mark.parametrize("decoding", [Decoding(6), Decoding(6, temperature=1.0, top_p=0.9, seed=3)])
def test_replies_do_not_depend_on_the_batch(
    model: Model, alone: Model, images: list[ImageRef], pictures: Pictures, decoding: Decoding
) -> None:
    asked = questions(images, decoding=decoding)
    together = [reply.text for reply in model.generate(asked, pictures)]
    assert together == [reply.text for reply in alone.generate(asked, pictures)]
    assert together[::-1] == [reply.text for reply in model.generate(asked[::-1], pictures)]


def test_another_seed_gives_another_sample(
    model: Model, images: list[ImageRef], pictures: Pictures
) -> None:
    asked = [
        ask("Which?", images[0], decoding=Decoding(8, temperature=1.0, seed=seed))
        for seed in range(4)
    ]
    assert len({reply.text for reply in model.generate(asked, pictures)}) > 1


def test_a_reply_ends_where_a_stop_string_begins(
    model: Model, images: list[ImageRef], pictures: Pictures
) -> None:
    [whole] = model.generate([ask("Which?", images[0])], pictures)
    assert whole.text
    assert whole.finish == "length"
    stop = whole.text[2:4]
    [stopped] = model.generate(
        [ask("Which?", images[0], decoding=Decoding(6, stop=(stop,)))], pictures
    )
    assert stopped.text == whole.text[: whole.text.index(stop)].strip()
    assert stopped.finish == "stop"


def test_an_assistant_message_that_comes_last_is_continued(
    model: Model, images: list[ImageRef], pictures: Pictures
) -> None:
    [opened] = model.loglikelihood(
        [ask("Which?", images[0], reply="It is", continuations=("red",))], pictures
    )
    [asked] = model.loglikelihood(
        [ask("Which?", images[0], continuations=("It is", "It is red"))], pictures
    )
    given, whole = (score.sum for score in asked.scores)
    assert opened.scores[0].sum == pytest.approx(whole - given, abs=1e-4)


def test_a_question_that_names_the_image_token_is_still_one_picture(
    model: Model, images: list[ImageRef], pictures: Pictures
) -> None:
    [reply] = model.generate([ask("What does <image> mean in <|user|> text?", images[0])], pictures)
    assert reply.error is None


def test_a_missing_picture_fails_alone(
    model: Model, images: list[ImageRef], pictures: Pictures
) -> None:
    lost = ImageRef("0" * 64, "image/png", 4, 4)
    good, bad = model.generate([ask("Which?", images[0]), ask("Which?", lost)], _Store(pictures))
    assert good.error is None
    assert bad.error is not None
    assert bad.error.kind == "bad_request"


class _Store:
    def __init__(self, pictures: Pictures) -> None:
        self._pictures = pictures

    def read(self, image: ImageRef) -> bytes:
        from snellen.errors import DataError

        if image.digest not in self._pictures:
            raise DataError(f"image {image.digest[:12]} is missing")
        return self._pictures.read(image)


def test_system_and_dialogue_turns_are_rendered(
    model: Model, images: list[ImageRef], pictures: Pictures
) -> None:
    said = [("system", "Be brief."), ("user", "Hello"), ("assistant", "Hi"), ("user", "Which?")]
    messages = tuple(Message(role, (TextPart(text),)) for role, text in said)  # type: ignore[arg-type]
    [reply] = model.generate([Request("b", "s", Variant(), messages)], pictures)
    assert reply.error is None


def test_an_embedded_model_that_is_opened_again_is_a_copy_that_answers_alike(
    images: list[ImageRef], pictures: Pictures
) -> None:
    asked, scored = questions(images), questions(images, continuations=OPTIONS)
    first, again = load_model("snellen:tiny"), load_model("snellen:tiny")
    assert again is not first and again.fingerprint() == first.fingerprint()
    assert [one.text for one in again.generate(asked, pictures)] == [
        one.text for one in first.generate(asked, pictures)
    ]
    assert [one.scores for one in again.loglikelihood(scored, pictures)] == [
        one.scores for one in first.loglikelihood(scored, pictures)
    ]


def test_the_fingerprint_follows_the_weights(folder: Path, model: Model, tmp_path: Path) -> None:
    facts = model.fingerprint()
    assert facts["weights"].startswith("sha256:")
    assert facts["dtype"] == "float32"
    other = tmp_path / "copy"
    other.mkdir()
    for path in folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    assert load_model(f"hf:{other}").fingerprint() == {
        **facts,
        "scoring": load_model(f"hf:{other}").fingerprint()["scoring"],
    }
    settings = other / "generation_config.json"
    settings.write_text(settings.read_text().replace("}", " }"))
    assert load_model(f"hf:{other}").fingerprint()["weights"] != facts["weights"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hf:./no/such/folder", "there is no folder"),
        ("hf:no name", "is not a repository name"),
        ("hf:{empty}", "has no config.json"),
        ("hf:{folder}?batch_size=none", "positive number or auto"),
        ("hf:{folder}?dtype=float99", "dtype"),
        ("hf:{folder}?device=cuda:7", "finds no GPU"),
        ("hf:{folder}?load_in_4bit=true", "bitsandbytes"),
    ],
)
def test_a_model_that_cannot_be_loaded_says_why_in_one_line(
    text: str, words: str, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        load_model(text.format(folder=folder, empty=tmp_path))
    assert "\n" not in str(caught.value)


def test_loading_prints_nothing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    load_model(f"hf:{folder}")
    assert capfd.readouterr() == ("", "")


def test_a_model_that_is_not_in_the_cache_says_so_when_offline(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="not in the local cache, and HF_HUB_OFFLINE is set"):
        load_model("hf:nobody/nothing")


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The empty cache of a hub that nobody reaches."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def test_a_hub_that_cannot_be_reached_is_said_at_once_with_what_to_do(
    no_hub: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        ModelError, match=r"127\.0\.0\.1:9 cannot be reached .*hf:\./folder.*HF_HUB_OFFLINE=1"
    ):
        load_model("hf:nobody/nothing")
    assert capfd.readouterr() == ("", "")


def test_a_model_in_the_cache_is_loaded_without_the_hub_and_a_line_says_so(
    folder: Path, no_hub: Path
) -> None:
    repository, commit = no_hub / "models--nobody--something", "0" * 40
    (repository / "snapshots").mkdir(parents=True)
    (repository / "snapshots" / commit).symlink_to(folder)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    lines: list[str] = []
    with using_callbacks(UserCallbacks(say=lines.append)):
        assert load_model("hf:nobody/something").name == "hf:nobody/something"
    [line] = lines
    assert (
        "127.0.0.1:9 cannot be reached" in line
        and "loading nobody/something from the hub's cache" in line
    )


@pytest.mark.slow
def test_a_process_that_loads_a_model_prints_nothing_and_says_what_is_not_in_the_cache(
    folder: Path, tmp_path: Path
) -> None:
    code = (
        f"from snellen.models.loading import load_model\nload_model('hf:{folder}')\nprint('loaded')\n"
        "try:\n    load_model('hf:nobody/nothing')\nexcept Exception as error:\n    print(error)"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    loaded, fault = done.stdout.splitlines()
    assert loaded == "loaded" and "not in the local cache, and HF_HUB_OFFLINE is set" in fault
    assert done.stderr == ""


def test_without_torch_the_error_names_the_extra(folder: Path) -> None:
    hidden = "import sys; sys.modules['torch'] = None"
    code = f"{hidden}; from snellen.models.loading import load_model; load_model('hf:{folder}')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"needs the package torch: {install_line('hf')}" in done.stderr.splitlines()[-1]
