"""The structure of a page of a document that a reply to OCRBench v2 gives in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from snellen.metrics.tables import tree_distance

_SPECIAL_TOKENS = re.compile("<bos>|<eos>|<pad>|<unk>")
_WORD_PIECE = re.compile(r"\s##(\S)")


class _Node(Struct, eq=False):
    """A line of a document, with the lines below it."""

    label: str
    children: list[_Node] = []


def page_structure_score(reply: str, gold: str) -> float:
    """Return how alike the structures of two pages in Markdown are (the makers' STEDS), at most 1.

    A page is a tree: its headings are below the root, and lines are below the heading before them. Lines before the
    first heading are below an empty title. The score is 1 - (edit distance of the trees / nodes of the larger one). It
    costs 1 to insert or delete a line, and 1 to turn a line into another one if either is blank. Otherwise that costs
    nothing, so that no word of a page counts. If the trees have little in common, the score can be below 0.

    For example, the page `# Birds\\nA wren.\\nA robin.` is a tree of five nodes. A reply without the last line has an
    edit distance of 1 and a score of 1 - 1 / 5, whatever it says of birds.

    Args:
        reply: The page that the reply gives.
        gold: The correct page.

    Raises:
        MissingExtraError: The extra `documents` is not installed.
    """
    reply_tree = _tree(reply)
    gold_tree = _tree(gold)
    n_nodes = max(len(list(_preorder(reply_tree))), len(list(_preorder(gold_tree))))
    return 1 - tree_distance(reply_tree, gold_tree, _renaming_cost) / n_nodes


def _tree(page: str) -> _Node:
    """Return the lines of a page as a tree."""
    title = _Node("TITLE")
    root = _Node("ROOT", [title])
    parent = title
    for line in page.split("\n"):
        text = _plain(line)
        if not text.startswith("#"):
            parent.children.append(_Node(text))
            continue
        heading = text.replace("#", "")
        root.children.append(_Node(heading))
        # The lines of a heading that occurs twice are below the first one; those of an empty one are of the title.
        parent = title
        if heading:
            parent = next(node for node in _preorder(root) if node.label == heading)
    return root


def _preorder(node: _Node) -> Iterator[_Node]:
    yield node
    for child in node.children:
        yield from _preorder(child)


def _plain(line: str) -> str:
    """Return a line without the marks of tokenisers and of bold and italic text.

    The makers also remove blanks from commands of LaTeX, which changes neither the tree nor which lines are blank.
    """
    line = _SPECIAL_TOKENS.sub("", line)
    line = _WORD_PIECE.sub(r"\1", line)
    return line.replace("*", " ").replace("_", " ")


def _renaming_cost(first: _Node, second: _Node) -> float:
    return 0.0 if first.label.strip() and second.label.strip() else 1.0
