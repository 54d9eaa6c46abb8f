"""Pages of OmniDocBench from the rows of its dataset: the blocks of each, and its attributes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.common.drafts import Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.formats.delimited import decode_base64, table_rows
from snellen.formats.json_files import decoded_json, read_json
from snellen.formats.locate import locate_file

TEXTS = (
    "text_block", "title", "code_txt", "code_txt_caption", "reference", "equation_caption", "figure_caption",
    "figure_footnote", "table_caption", "table_footnote", "code_algorithm", "code_algorithm_caption", "header", "footer",
    "page_footnote", "page_number",
)  # fmt: skip
"""Categories of blocks that are matched with the texts of a reply."""
NOT_COUNTED = frozenset(
    "figure_caption figure_footnote table_caption table_footnote code_algorithm code_algorithm_caption header footer "
    "page_footnote page_number equation_caption".split()
)
"""Categories of texts that a reply may have or not: they are matched, and their errors are not counted."""


class PageBlock(Struct, frozen=True, omit_defaults=True):
    """A block of the correct page."""

    text: str
    """Its text, its LaTeX or its HTML."""
    order: int = 0
    """Its place in the order of reading, from 1 on; 0 if it has none."""
    category: str = ""


class Page(Struct, frozen=True, omit_defaults=True):
    """The blocks of a correct page by their kind, each kind in the order of reading."""

    texts: list[PageBlock] = []
    formulas: list[PageBlock] = []
    tables: list[PageBlock] = []

    @property
    def markdown(self) -> str:
        """The page as a reply would give it."""
        written: list[tuple[int, str]] = []
        for block in self.texts:
            if block.category not in NOT_COUNTED:
                mark = "# " if block.category == "title" else ""
                written.append((block.order, mark + block.text))
        for block in self.formulas:
            formula = block.text.strip().strip("$").strip()
            if not formula.startswith("\\["):
                formula = f"\\[{formula}\\]"
            written.append((block.order, formula))
        written += [(block.order, block.text) for block in self.tables]
        ordered = sorted(written, key=lambda block: block[0])
        return "\n\n".join(text for _, text in ordered)


class PagesParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pages are read, and what is asked about each."""

    language: str
    """The language of the pages, as `page_attribute` names it."""
    question: str
    files: tuple[str, ...] = ()
    """The names of the files on the hub."""


class _Row(Struct, frozen=True):
    """A row of the dataset as VLMEvalKit and lmms-eval read it."""

    index: str
    image: str
    """The image as base64 text."""
    answer: str
    """The page as JSON."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a draft for each page in a language.

    The accepted texts of a page are the page in Markdown, and behind it its blocks as JSON, by which replies are scored.

    Args:
        params: `PagesParams`.
        folder: The folder with `OmniDocBench.tsv`, which has the images too, or else with the makers'
            `OmniDocBench.json` and its folder `images`.

    Raises:
        DataError: There is neither file, or a page is not as the dataset describes pages.
    """
    chosen = read_params(params, PagesParams)
    path = locate_file(folder, "OmniDocBench.tsv", "OmniDocBench.json")
    pages = _pages_of_table(path) if path.suffix == ".tsv" else _pages_of_makers(path)
    for where, name, annotated, image in pages:
        try:
            attributes = annotated["page_info"]["page_attribute"]
            if attributes["language"] != chosen.language:
                continue
            page = page_of(annotated)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{where}: it is not a page of OmniDocBench, which has page_info and layout_dets ({error!r})"
            ) from None
        blocks = msgspec.json.encode(page).decode()
        texts = tuple(text for text in (page.markdown, blocks) if text)
        yield Draft(
            id=name,
            rounds=(QuestionDraft(chosen.question, texts=texts),),
            images=(image,),
            where=where,
            tags=attribute_tags(attributes),
        )


_LocatedPages = Iterator[tuple[str, str, Any, bytes | Path]]
"""Pages with their locations, names and images."""


def _pages_of_table(path: Path) -> _LocatedPages:
    for where, row in table_rows(path, _Row):
        annotated = decoded_json(row.answer.encode(), where)
        yield where, row.index, annotated, decode_base64(row.image, where, "a file name")


def _pages_of_makers(path: Path) -> _LocatedPages:
    for number, annotated in enumerate(read_json(path, list[dict[str, Any]])):
        where = f"{path}: page {number + 1}"
        try:
            name = Path(annotated["page_info"]["image_path"]).name
        except (KeyError, TypeError) as error:
            raise DataError(f"{where}: page_info has no image_path ({error!r})") from None
        yield where, Path(name).stem, annotated, path.parent / "images" / name


def attribute_tags(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return the attributes of a page as tags. A special issue, such as a watermark, is a tag with the value `yes`."""
    tags: dict[str, str] = {}
    for name, value in attributes.items():
        if isinstance(value, list):
            tags.update((issue, "yes") for issue in value)
        elif isinstance(value, bool):
            tags[name] = "yes" if value else "no"
        elif value:
            tags[name] = str(value)
    return tags


def page_of(annotated: Mapping[str, Any]) -> Page:
    """Return the blocks of a page from its annotations.

    A text that a column or a figure interrupts is joined; it has the category and the place of its first part.
    """
    parts_of_joined = _joined_parts(annotated)
    is_part = {name for parts in parts_of_joined for name in parts}
    by_category: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    by_name: dict[Any, Mapping[str, Any]] = {}
    for block in annotated["layout_dets"]:
        if block["anno_id"] in is_part:
            by_name[block["anno_id"]] = block
        else:
            by_category[block["category_type"]].append(block)
    for parts in parts_of_joined:
        blocks = [by_name[name] for name in parts if name in by_name]
        if not blocks:
            continue
        blocks.sort(key=_order)
        text = "".join(block.get("text") or "" for block in blocks)
        joined = {key: blocks[0].get(key) for key in ("category_type", "order")}
        by_category[blocks[0]["category_type"]].append({**joined, "text": text})

    texts = [block for category in TEXTS for block in by_category[category]]
    return Page(
        texts=_blocks(texts, "text"),
        formulas=_blocks(by_category["equation_isolated"], "latex"),
        tables=_blocks(by_category["table"], "html"),
    )


def _joined_parts(annotated: Mapping[str, Any]) -> list[list[Any]]:
    """Return the names of blocks that are parts of one text.

    As in the makers' code, a part that two relations name is there twice.
    """
    joined: list[list[Any]] = []
    for relation in (annotated.get("extra") or {}).get("relation") or ():
        if relation["relation_type"] != "truncated":
            continue
        pair = [relation["source_anno_id"], relation["target_anno_id"]]
        known = [parts for parts in joined if pair[0] in parts or pair[1] in parts]
        for parts in known:
            parts.extend(pair)
        if not known:
            joined.append(pair)
    return joined


def _order(block: Mapping[str, Any]) -> int:
    return block.get("order") or 0


def _blocks(blocks: Sequence[Mapping[str, Any]], content: str) -> list[PageBlock]:
    found: list[PageBlock] = []
    for block in sorted(blocks, key=_order):
        category = block.get("fine_category_type") or block["category_type"]
        found.append(PageBlock(str(block.get(content) or ""), _order(block), category))
    return found
