"""The blocks of a page that a reply gives in Markdown: texts, displayed formulas and tables."""

from __future__ import annotations

import re

from msgspec import Struct

Span = tuple[int, int]


class ReplyBlock(Struct, frozen=True):
    """A block of a reply and the position of its first character."""

    text: str
    position: int


class ReplyBlocks(Struct, frozen=True):
    """The blocks of a reply by their kind, each kind in the order of the reply."""

    texts: list[ReplyBlock]
    formulas: list[ReplyBlock]
    tables: list[ReplyBlock]
    """Tables in HTML. Those in LaTeX are left out."""


_IMAGE = re.compile(r"!\[.*?\]\(.*?\)")
_FENCE_BEGIN = re.compile(r"^```markdown\n?", re.MULTILINE)
_FENCE_END = re.compile(r"```\n?$", re.MULTILINE)
_LATEX_TABLE = re.compile(r"\\begin{table}.*?\\end{table}", re.DOTALL)
_FORMULA = re.compile(r"\$\$.*?\$\$|\\\[.*?\\\]|\$.*?\$|\\\(.*?\\\)", re.DOTALL)
_DELIMITED = re.compile(r"\$\$(.*?)\$\$|\$(.*?)\$|\\\((.*?)\\\)", re.DOTALL)
_MARKDOWN_ROW = re.compile(r"\|\s*.*?\s*\|\n", re.DOTALL)
_HTML_TABLE = re.compile("<table.*?</table>", re.DOTALL)
_PLAIN_TABLE = re.compile(r"<table>[\s\S]*?</table>")
_COMMENT = re.compile(r"<!--[\s\S]*?-->")
_TABLE_TAG = re.compile("</?t(able|head|body)>")
_RULE_OF_TABLE = re.compile("-*?:|---|:-*?")
_CODE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_STYLES = (
    re.compile(r"\\title\{(.*?)\}"),
    re.compile(r"\\title\s*\{\s*(.*?)\s*\}", re.DOTALL),
    re.compile(r"\\text\s*\{\s*(.*?)\s*\}", re.DOTALL),
    re.compile(r"\\section\*?\{(.*?)\}"),
    re.compile(r"\\section\*?\{\s*(.*?)\s*\}", re.DOTALL),
)


class _Nesting(Struct, frozen=True):
    """How a kind of table begins and ends, and how many characters the makers' script goes on at each mark."""

    begin: re.Pattern[str]
    end: re.Pattern[str]
    step: int
    retry_step: int = 16
    """After a table that never ends, how far behind its beginning the next one is looked for."""


# The step is that of the pattern as it is written in the makers' script, where a backslash takes two characters.
_LATEX = _Nesting(re.compile(r"\\begin{tabular}"), re.compile(r"\\end{tabular}"), 14)
_HTML = _Nesting(re.compile("<table(?:[^>]*)>"), re.compile("</table>"), 8)


def reply_blocks(reply: str) -> ReplyBlocks:
    """Return the blocks of a reply.

    Tables and formulas are taken out first. What remains is split into texts at empty lines, or at every line break if
    there is no empty line. A formula within a line also stays in its text, because a page may have it as a block.

    Args:
        reply: A page in Markdown, in which tables may be HTML or LaTeX.
    """
    content = _IMAGE.sub("", reply)
    content = _FENCE_BEGIN.sub("", content)
    content = _FENCE_END.sub("", content)
    content = _shorten_repeats(content)

    for match in _LATEX_TABLE.finditer(content):
        content = _blank(content, match.span())
    for span in _outer_spans(content, _LATEX):
        content = _blank(content, span)

    tables: list[ReplyBlock] = []
    for span in _outer_spans(content, _HTML):
        start, end = span
        tables.append(ReplyBlock(content[start:end], start))
        content = _blank(content, span)

    formulas: list[ReplyBlock] = []
    for match in _FORMULA.finditer(content):
        formula = "".join(match[0].split())
        delimited = _DELIMITED.search(formula)
        if delimited is None or delimited[1]:
            content = _blank(content, match.span())
            formula = _DELIMITED.sub(r"\\[\1\\]", formula)
        else:
            formula = _DELIMITED.sub(r"\\[\2\3\\]", formula)
        formulas.append(ReplyBlock(formula, match.start()))

    if len(_MARKDOWN_ROW.findall(content + "\n")) >= 2:
        content = _markdown_tables_to_html(content)
        for match in _HTML_TABLE.finditer(content):
            tables.append(ReplyBlock(match[0], match.start()))
            content = _blank(content, match.span())

    texts: list[ReplyBlock] = []
    for match in _CODE.finditer(content):
        texts.append(ReplyBlock(match[2].strip(), match.start()))
        content = _blank(content, match.span())
    for style in _STYLES:
        content = style.sub(r"\1", content)
    for block in _paragraphs(content):
        if block.text.startswith("<table") and block.text.endswith("</table>"):
            tables.append(block)
        elif block.text.startswith("$") and block.text.endswith("$"):
            if block.text.replace("$", "").strip():
                formulas.append(block)
        else:
            texts.append(block)
    return ReplyBlocks(_in_order(texts), _in_order(formulas), _in_order(tables))


def _in_order(blocks: list[ReplyBlock]) -> list[ReplyBlock]:
    return sorted(blocks, key=lambda block: block.position)


def _blank(content: str, span: Span) -> str:
    start, end = span
    return content[:start] + " " * (end - start) + content[end:]


def _shorten_repeats(content: str) -> str:
    """Return a text in which a sign that is neither letter nor digit is repeated at most ten times."""
    content = re.sub("_{4,}", "____", content)
    content = re.sub(" {4,}", "    ", content)
    return re.sub(r"([^a-zA-Z0-9])\1{10,}", r"\1\1\1\1", content)


def _outer_spans(text: str, nesting: _Nesting) -> list[Span]:
    """Return where tables are that are not inside others. If one never ends, those inside it are returned."""
    spans: list[Span] = []
    starts: list[int] = []
    position = 0
    while position < len(text):
        begin = nesting.begin.search(text, position)
        end = nesting.end.search(text, position)
        if not end:
            break
        if begin and begin.start() < end.start():
            starts.append(begin.start())
            position = begin.start() + nesting.step
            continue
        position = min(end.start() + nesting.step, len(text))
        if starts:
            start = starts.pop()
            if not starts:
                spans.append((start, position))
    if starts:
        offset = starts[0] + nesting.retry_step
        for start, stop in _outer_spans(text[offset:], nesting):
            spans.append((start + offset, stop + offset))
    return spans


# --- tables in Markdown ----------------------------------------------------------------------------------------------


def _markdown_tables_to_html(content: str) -> str:
    """Return a text with its Markdown tables as HTML.

    As in the makers' script, each row first becomes a table of its own, and tables that follow each other are joined.
    """
    content = content.replace("\r", "") + "\n"
    for row in _MARKDOWN_ROW.findall(content):
        content = content.replace(row, _row_as_table(row), 1)
    content = _join_tables(content)
    content = content.replace("<table>", '<table border="1" >')
    return content.replace("<td>", '<td colspan="1" rowspan="1">')


def _row_as_table(row: str) -> str:
    lines = [line.strip() for line in row.strip().split("\n")]
    table = "<table>\n  <thead>\n    <tr>\n"
    for cell in lines[0].split("|")[1:-1]:
        table += f"      <th>{cell.strip()}</th>\n"
    table += "    </tr>\n  </thead>\n  <tbody>\n"
    for line in lines[2:]:
        table += "    <tr>\n"
        for cell in line.split("|")[1:-1]:
            table += f"      <td>{cell.strip()}</td>\n"
        table += "    </tr>\n"
    return table + "  </tbody>\n</table>\n"


def _join_tables(content: str) -> str:
    """Return a text in which tables that follow each other without a line between them are one.

    The rule below a table's head is left out; so is the line directly before a table, which is usually empty.
    """
    joined: list[str] = []
    tables = ""
    in_table = False
    previous = ""
    for line in content.split("\n"):
        if "<table>" in line:
            in_table = True
            tables += previous
        elif in_table:
            if not _RULE_OF_TABLE.search(previous) and "</thead>" not in previous:
                tables += "\n" + previous
            if "</table>" in previous:
                in_table = False
                joined.append(_as_one_table(tables))
                tables = ""
        else:
            joined.append(previous)
        previous = line
    if previous:
        if in_table or "</table>" in previous:
            joined.append(_as_one_table(f"{tables}\n{previous}"))
        else:
            joined.append(previous)
    return "\n".join(joined)


def _as_one_table(tables: str) -> str:
    rows: list[str] = []
    for table in _PLAIN_TABLE.findall(_COMMENT.sub("", tables)):
        lines: list[str] = []
        for line in table.split("\n"):
            if "<th>" in line:
                line = line.replace("<th>", "<td>").replace("</th>", "</td>")
            if not _TABLE_TAG.search(line):
                lines.append(line)
        if len(lines) > 2:  # more than an empty row
            rows.extend(lines)
    return "\n\n<table>\n{}\n</table>\n\n".format("\n".join(rows))


def _paragraphs(content: str) -> list[ReplyBlock]:
    """Return the texts of a page between empty lines, or its lines if it has no empty line.

    As in the makers' script, a position does not count the line breaks at which the page is split.
    """
    parts = content.split("\n\n")
    if len(parts) == 1:
        parts = content.split("\n")
    paragraphs: list[ReplyBlock] = []
    position = 0
    for part in parts:
        lines = [line.strip() for line in part.split("\n") if line.strip()]
        if lines:
            paragraphs.append(ReplyBlock("\n".join(lines), position))
        position += len(part)
    return paragraphs
