"""The pages that a user reads keep the house rules of website/prose.toml, and the rules find what they are made for."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("proselint", reason="waits for proselint")

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def prose() -> Any:
    spec = importlib.util.spec_from_file_location("prose", ROOT / "website" / "prose.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_keep_the_house_rules(prose: Any) -> None:
    assert [str(finding) for page in prose.checked() for finding in prose.findings(page)] == []


def test_the_pages_have_no_more_words_than_they_may(prose: Any) -> None:
    assert prose.over_budget() == ""


def test_only_pages_of_the_user_path_wait(prose: Any) -> None:
    assert set(prose.RULES["waiting"]) <= {prose.name_of(page) for page in prose.user_path()}


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("Of the answers' file texts are read, no pictures.", "inverted"),
        ("An answer that is no option is refused.", "is no X"),
        ("For others write a card, one row a model, and a run of it is shown with a line.", "one for each"),
        ("What it lacks is named.", "what ... is"),
        ("Whoever begins another leaves it abandoned.", "whoever"),
        ("Progress and budgets are as ever.", "as ever"),
        ("The machine asks for it unbidden.", "archaic"),
        ("All but the last two are the same.", "but for"),
        ("The very unique reply counts.", "uncomparables"),
        ("We count " + ", ".join(map(str, range(34))) + ".", "36 words in a sentence"),
    ],
)
def test_a_sentence_that_nobody_should_read_is_found(prose: Any, sentence: str, rule: str) -> None:
    found = [finding.text for finding in prose.findings_in("page.md", f"# Title\n\nA good sentence. {sentence}\n")]
    assert found and all(text.startswith(rule) for text in found)


def test_a_sentence_that_says_what_there_is_not_may_stand(prose: Any) -> None:
    assert list(prose.findings_in("page.md", "# Title\n\nThere is no value where no question was asked.\n")) == []


def test_code_links_and_tables_are_no_sentences(prose: Any) -> None:
    page = (
        "# A\n\n```\nthis is no option\n```\n\nSee [a page](is-no-option.md) and `what is, is`.\n\n| `a` | one line |\n"
    )
    assert [sentence.text for sentence in prose.sentences(page)] == [
        "A",
        "See a page and `code`.",
        "`code`",
        "one line",
    ]
    assert list(prose.findings_in("page.md", page)) == []


def test_a_finding_names_the_line_on_which_its_sentence_begins(prose: Any) -> None:
    page = "# Title\n\nA first sentence.\nA second that\nis long. This is\nno option.\n"
    assert [finding.line for finding in prose.findings_in("page.md", page)] == [5]
