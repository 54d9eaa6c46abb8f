"""The text reader: a trained model end to end and offline, on words drawn here in the layout of the published sets."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

import snellen as sn
from snellen.common.images import ImageStore
from snellen.errors import MissingExtraError, ModelError, UnknownNameError
from snellen.models.loading import load_model
from snellen.models.ocr import OcrModel
from snellen.records import ImagePart, ImageRef, Message, Request, Response, TextPart, Variant
from snellen.runs.run_folder import read_manifest

needs_reader = pytest.mark.skipif(
    find_spec("rapidocr") is None or find_spec("onnxruntime") is None,
    reason="waits for rapidocr and onnxruntime (extra ocr), some 270 MB with OpenCV",
)
WORDS = ("RONALDO", "Snellen", "STOP", "New York", "62-03")


def written(lines: tuple[str, ...], path: Path, size: int = 40) -> Path:
    """An image with lines of text."""
    font = ImageFont.load_default(size=size)
    width = max(int(font.getlength(line)) for line in lines) + size
    picture = Image.new("RGB", (width, int(1.6 * size) * len(lines) + size // 2), "white")
    for number, line in enumerate(lines):
        ImageDraw.Draw(picture).text(
            (size // 2, size // 4 + int(1.6 * size) * number), line, font=font, fill="black"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path)
    return path


@pytest.fixture(scope="module")
def reader() -> OcrModel:
    model = load_model("ocr:rapidocr")
    assert isinstance(model, OcrModel)
    return model


def ask(reader: OcrModel, folder: Path, *pictures: ImageRef) -> Response:
    parts = (*(ImagePart(picture) for picture in pictures), TextPart("What colour is the car?"))
    request = Request("b", "1", Variant(), (Message("user", parts),))
    [response] = reader.generate([request], ImageStore(folder))
    return response


@needs_reader
def test_a_trained_reader_reads_drawn_words_of_an_official_layout(tmp_path: Path) -> None:
    names = [f"test/{n}.png" for n in range(len(WORDS))]
    for name, word in zip(names, WORDS, strict=True):
        written((word,), tmp_path / "files" / name)
    labels = [f"{name} {word}" for name, word in zip(names, WORDS, strict=True)]
    (tmp_path / "files" / "test_label.txt").write_text("\n".join(labels))
    benchmark = sn.build("lvlm-ehub/iiit5k", source=tmp_path / "files", to=tmp_path / "iiit5k")
    results = sn.evaluate("ocr:rapidocr", str(benchmark.folder), runs=tmp_path, name="ocr")
    assert results.value("word_accuracy", benchmark="lvlm-ehub/iiit5k") == 1.0
    assert results.value("exact_match", benchmark="lvlm-ehub/iiit5k") == 1.0
    [note] = [note for note in read_manifest(tmp_path / "ocr").notes if "only recognises" in note]
    assert note.endswith("whatever the question")


@needs_reader
def test_lines_are_read_from_top_to_bottom_and_pictures_one_after_the_other(
    reader: OcrModel, tmp_path: Path
) -> None:
    store = ImageStore(tmp_path)
    page = store.put(written(("TOTAL", "12.50"), tmp_path / "page.png").read_bytes(), "page")
    word = store.put(written(("STOP",), tmp_path / "word.png").read_bytes(), "word")
    assert ask(reader, tmp_path, page, word).text == "TOTAL 12.50 STOP"
    assert ask(reader, tmp_path, word, page).text == "STOP TOTAL 12.50"


@needs_reader
def test_a_picture_without_text_has_an_empty_reply_and_no_picture_is_a_failure(
    reader: OcrModel, tmp_path: Path
) -> None:
    Image.new("RGB", (90, 60), "teal").save(tmp_path / "plain.png")
    plain = ImageStore(tmp_path).put((tmp_path / "plain.png").read_bytes(), "plain")
    assert ask(reader, tmp_path, plain).text == ""
    nothing, lost = (
        ask(reader, tmp_path),
        ask(reader, tmp_path, ImageRef("0" * 64, "image/png", 9, 9)),
    )
    assert [response.error and response.error.kind for response in (nothing, lost)] == [
        "bad_request",
        "bad_request",
    ]
    request = Request("b", "1", Variant(), (), kind="loglikelihood", continuations=("a", "b"))
    [scored] = reader.loglikelihood([request], ImageStore(tmp_path))
    assert scored.error is not None and "only recognises text" in scored.error.detail


@needs_reader
def test_its_answers_depend_on_versions_weights_and_settings(reader: OcrModel) -> None:
    known = reader.fingerprint()
    assert {"rapidocr", "onnxruntime", "weights det", "weights cls", "weights rec"} <= set(known)
    assert all(len(known[f"weights {step}"]) == 64 for step in ("det", "cls", "rec"))
    other = load_model("ocr:rapidocr?mode=line&score=0.9").fingerprint()
    assert {name for name in known if known[name] != other[name]} == {"mode", "score"}


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[ocr\]'"):
        load_model("ocr:rapidocr")


@pytest.mark.parametrize(
    ("text", "fault", "error"),
    [
        ("ocr:tesseract", "unknown engine of ocr: 'tesseract'; known: rapidocr", UnknownNameError),
        (
            "ocr:rapidocr?mode=word",
            "unknown value of mode 'word'; known: auto, line, page",
            ModelError,
        ),
        ("ocr:rapidocr?modes=line", "unknown option 'modes'; did you mean mode", ModelError),
    ],
)
def test_a_wrong_string_says_what_is_wrong(text: str, fault: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=fault):
        load_model(text)
