"""Score the published replies of `[[published.reproductions]]` with the metric of their entry, the worst first.

    python bench/reproductions.py CLONES [--only WORDS] [--write]

CLONES has the repositories as OWNER+NAME/repo; nothing is fetched. Entries name repository, files, and the figure that
was printed for them. `--write` puts what was measured into the entries, and makes the table of docs/reproductions.md
of what all entries say. A number is reproduced within a tenth of a point.
"""

from __future__ import annotations

import argparse
import ast
import csv
import io
import json
import re
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

import snellen as sn
from snellen.catalogue import BenchmarkSpec, Reproduction, entries, entry_file
from snellen.catalogue.published_number import OWN_NUMBER, REPRODUCED_WITHIN
from snellen.errors import SnellenError
from snellen.formats.text_table import TextTable
from snellen.interchange.harness_rules import RULES

PAGE = Path(__file__).parents[1] / "docs" / "reproductions.md"
TABLE = re.compile(r"(<!-- reproductions -->\n).*?(<!-- end of reproductions -->\n)", re.DOTALL)
LETTERS = "ABCDEFGHIJ"
Row = dict[str, Any]


class Finding(Struct, frozen=True):
    entry: BenchmarkSpec
    reproduction: Reproduction
    rescored: float | None
    """None if the replies could not be scored."""
    fault: str = ""

    @property
    def difference(self) -> float:
        """Points between the two figures; infinite if there is only one."""
        if self.rescored is None:
            return float("inf")
        return abs(self.rescored - self.reproduction.printed)


def file_at(clones: Path, repository: str, path: str, branch: str = "HEAD") -> bytes:
    """A file of a repository, as it is in the newest commit of its branch."""
    clone = clones / repository.replace("/", "+") / "repo"
    command = ["git", "-C", str(clone), "show", f"{branch}:{path}"]
    return subprocess.run(command, capture_output=True, check=True).stdout


# --- reading published replies ---------------------------------------------------------------------------------------


def records_in(text: str, under: str = "") -> list[Row]:
    """The records of a JSON or JSONL file: a list, a list under keys, or records by their ids.

    Keys are joined by points. A star stands for each record of a list, so that `*.questions` has those of all records.
    """
    try:
        content = json.loads(text)
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    for key in under.split(".") if under else ():
        if key == "*":
            continue
        if isinstance(content, list):
            content = [record for part in content for record in part[key]]
        else:
            content = content[key]
    if isinstance(content, list):
        return content
    rows = []
    for name, value in content.items():
        record = value if isinstance(value, dict) else {"reply": value}
        rows.append({"id": name, **record})
    return rows


def lines_with_commas(text: str) -> list[Row]:
    """Records a line each, with a comma behind them and no brackets around."""
    return [json.loads(line.strip().rstrip(",")) for line in text.splitlines() if line.strip()]


def lettered(records: list[Row], *fields: str) -> list[Row]:
    """Records whose fields have indices of options, with letters in their place."""
    rows = []
    for record in records:
        given = [field for field in fields if field in record]
        letters = {field: LETTERS[int(record[field])] for field in given}
        rows.append({**record, **letters})
    return rows


def clean_boxes(text: str) -> list[Row]:
    """Boxes in undegraded images, read by the repository: corner, width and height, as two corners here."""
    rows = []
    for sample in json.loads(text)["samples"]:
        boxes = {}
        predicted = sample["conditions"]["clean"]["predicted_bbox"]
        for name, box in {"answer": sample["gt_bbox"], "prediction": predicted}.items():
            left, top, width, height = box
            boxes[name] = [left, top, left + width, top + height]
        rows.append({"id": sample["sample_id"], "question": sample["expression"], **boxes})
    return rows


def questions_of_figures(text: str) -> list[Row]:
    """CharXiv's descriptive questions: lists of numbers and answers by figure, as a record each."""
    rows = []
    for figure, facts in json.loads(text).items():
        for place, (number, answer) in enumerate(zip(facts["qids"], facts["answers"], strict=True)):
            rows.append({"id": f"{figure}_{place}", "number": number, "answer": answer})
    return rows


def extracted_letters(text: str) -> list[Row]:
    """LogicVista's table: lists of letters, as the judge extracted them and as they are right."""
    rows = []
    for record in csv.DictReader(io.StringIO(text)):
        letters = {}
        for name, cell in record.items():
            if cell.startswith("["):
                found = [letter.upper() for letter in ast.literal_eval(cell)]
                letters[name] = ", ".join(found)
        rows.append({**record, **letters})
    return rows


def nested_by_video(text: str) -> list[Row]:
    """TempCompass's records: by video, then by aspect."""
    rows = []
    for video, aspects in json.loads(text).items():
        for aspect, questions in aspects.items():
            rows += [{"video_id": video, "dim": aspect, **question} for question in questions]
    return rows


def table_rows(content: bytes, suffix: str) -> list[Row]:
    """The rows of a table of text: .csv or .xlsx."""
    with tempfile.NamedTemporaryFile(suffix=suffix) as file:
        file.write(content)
        file.flush()
        table = TextTable.read(Path(file.name))
    return [dict(cells) for _, cells in table.rows]


def is_place(value: Any) -> bool:
    """Whether a value is a point or a box."""
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(x, (int, float)) for x in value)
    )


def zipped_tables(content: bytes, folder: str) -> list[Row]:
    """MME's results: a table for each category, with image, question, right answer and reply in its columns."""
    rows = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in sorted(archive.namelist()):
            if not name.startswith(folder) or not name.endswith(".txt"):
                continue
            for place, line in enumerate(archive.read(name).decode().splitlines()):
                image, question, answer, reply = line.split("\t")[:4]
                facts = {"question_id": image, "question": question, "answer": answer}
                category = Path(name).stem
                place_in_all = f"{category}-{place}"
                rows.append(
                    {"id": place_in_all, "category": category, **facts, "prediction": reply}
                )
    return rows


def options_of(record: Row, field: str) -> list[str] | None:
    """The options of a record: in a field, in its lines, or letters alone (`letters:4`)."""
    if field.startswith("letters:"):
        return list(LETTERS[: int(field.partition(":")[2])])
    if field.startswith("lines:"):
        lines = str(record[field.partition(":")[2]]).splitlines()
        return [line[2:].strip() for line in lines if re.match(r"[A-J]\.", line)]
    value = record.get(field)
    if isinstance(value, str):
        value = ast.literal_eval(value)
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    return [str(option) for option in value] if value else None


def answer_of(record: Row, field: str, options: Sequence[str] | None) -> Any:
    """The right answer of a record; of a question with options its letter."""
    answer = record[field]
    if is_place(answer):
        return [" ".join(map(str, answer))]
    if not options:
        return [str(one) for one in answer] if isinstance(answer, list) else [str(answer)]
    if isinstance(answer, int):
        return LETTERS[answer]
    text = str(answer).strip()
    match = re.match(r"\(?([A-J])(?:[.)].*)?$", text, re.DOTALL)
    if match:
        return match[1]
    return LETTERS[list(options).index(text)]


def reply_of(record: Row, field: str) -> str:
    """The reply of a record: the first of a list, and an empty text for none."""
    value = record.get(field)
    if is_place(value):
        return str(value)
    if isinstance(value, list):
        value = value[0] if value else ""
    return "" if value is None else str(value)


def records_of(content: bytes, path: str, reads: dict[str, str]) -> list[Row]:
    """The records of a file of replies."""
    form = reads.get("form", "")
    if form == "tables":
        return zipped_tables(content, reads["under"])
    if not form and path.endswith((".csv", ".xlsx")):
        return table_rows(content, Path(path).suffix)
    text = content.decode()
    if form == "lines":
        return lines_with_commas(text)
    if form == "indices":
        records = records_in(text, reads.get("under", ""))
        return lettered(records, reads.get("answer", "answer"), reads["reply"])
    if form == "clean boxes":
        return clean_boxes(text)
    if form == "figures":
        return questions_of_figures(text)
    if form == "letters":
        return extracted_letters(text)
    if form == "videos":
        return nested_by_video(text)
    return records_in(text, reads.get("under", ""))


def questions_of(clones: Path, reproduction: Reproduction) -> dict[str, Row]:
    """The questions by their ids, if they lie in a file of their own."""
    reads = reproduction.reads
    if "questions" not in reads:
        return {}
    repository = reads.get("questions-in", reproduction.repository)
    path = reads["questions"]
    content = file_at(clones, repository, path, reads.get("questions-branch", "HEAD"))
    form = {"form": reads.get("questions-form", ""), "under": reads.get("questions-under", "")}
    field = reads.get("question-id", reads.get("id", "id"))
    questions: dict[str, Row] = {}
    for record in records_of(content, path, form):
        questions[str(record[field])] = record
    add_labels(clones, reads, list(questions.values()))
    return questions


def add_labels(clones: Path, reads: dict[str, str], questions: list[Row]) -> None:
    """Add the right answers that lie in a file for each category, in the order of its questions."""
    for pair in reads.get("labels", "").split():
        category, _, path = pair.partition("=")
        labels = records_in(file_at(clones, reads["labels-in"], path).decode())
        asked = [question for question in questions if question["category"] == category]
        for question, label in zip(asked, labels, strict=True):
            question["label"] = label["label"]


def published_judges(clones: Path, reproduction: Reproduction) -> list[sn.Scripted]:
    """Judges that repeat the published marks, one for each file of marks; none if the replies need no judge."""
    reads = reproduction.reads
    judges = []
    for number, path in enumerate(reads.get("marks", "").split(), 1):
        content = file_at(clones, reproduction.repository, path, reads.get("branch", "HEAD"))
        marks = {
            str(record[reads.get("id", "id")]): record for record in records_in(content.decode())
        }
        name = f"snellen:published-marks-{number}"
        judges.append(published_judge(marks, reads["mark"], name, reads.get("mark-key", "")))
    return judges


def published_judge(marks: dict[str, Row], field: str, name: str, key: str = "") -> sn.Scripted:
    """A judge that repeats the marks in a field of records.

    Of a pair of marks, the first is that of the reference, as LLaVA's reviews have it. A judge that is asked for JSON
    gives the mark under a key.
    """

    def mark(request: Any) -> str:
        if request.sample_id not in marks:  # the call that checks a judge before it is used
            return ""
        value = marks[request.sample_id][field]
        if key:
            return json.dumps({key: value})
        if not isinstance(value, list):
            return str(value)
        is_pair = len(value) == 2
        is_of_reply = is_pair and "Mark the second answer" in request.messages[0].text
        return str(value[1] if is_of_reply else value[0])

    return sn.Scripted(mark, name=name)


def rows_of(clones: Path, reproduction: Reproduction) -> Iterator[Row]:
    """The replies of a reproduction as rows that `snellen score FILE` reads."""
    reads = reproduction.reads
    questions = questions_of(clones, reproduction)
    field, _, wanted = reads.get("where", "").partition("=")
    pattern = re.compile(reads.get("ids", ""))
    for path in reproduction.paths:
        content = file_at(clones, reproduction.repository, path, reads.get("branch", "HEAD"))
        for place, record in enumerate(records_of(content, path, reads)):
            if field and record[field] != wanted:
                continue
            number = str(record.get(reads.get("id", "id"), f"{Path(path).stem}-{place}"))
            if not pattern.match(number):
                continue
            facts = {**record, **questions.get(number, {})}
            options = None
            if "options" in reads and facts.get("question_type") != "short-answer":
                options = options_of(facts, reads["options"])
            reply = reply_of(record, reads.get("reply", "prediction"))
            if options:
                reply = read_by_rule(reply, options, reproduction.reader)
            if "marks" in reads:
                # The makers' judge marked each reply, but equal requests share a verdict here.
                reply = f"{reply}\n({number})"
            row: Row = {
                "id": number,
                "question": str(facts.get(reads.get("question", "question"), f"Question {number}")),
                "answer": answer_of(facts, reads.get("answer", "answer"), options),
                "prediction": reply,
            }
            if options:
                row["options"] = options
            for tag in reads.get("tags", "").split():
                name, _, value = tag.partition("=")
                row[name] = Path(path).stem if value == "@file" else str(facts[value or name])
            yield row


def read_by_rule(reply: str, options: Sequence[str], reader: str) -> str:
    """The letter that a rule of another harness reads; the reply as it is if no such rule reads it."""
    if reader not in RULES:
        return reply
    labels = LETTERS[: len(options)]
    place = RULES[reader](reply, options, labels)
    return "" if place is None else labels[place]


# --- scoring ---------------------------------------------------------------------------------------------------------


def rescored(clones: Path, entry: BenchmarkSpec, reproduction: Reproduction) -> float:
    """What the entry's metric gives for published replies, in percent or on the benchmark's own scale."""
    number = entry.published
    headline = number.headline if number else ""
    metrics = number.metrics if number else ()
    extractor = number.extractor if number else ""
    if reproduction.reader.startswith("legacy:"):
        extractor = reproduction.reader
    with tempfile.TemporaryDirectory() as folder:
        model = re.sub(r"[^A-Za-z0-9.]+", "-", reproduction.model)
        file = Path(folder) / f"{model}_{entry.short}.jsonl"
        rows = rows_of(clones, reproduction)
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        run = sn.import_run(file, to=Path(folder) / "run")
        settings: dict[str, Any] = {"extractor": extractor} if extractor else {}
        judges = published_judges(clones, reproduction)
        if judges and number and number.judge:
            metrics = (number.judge.metric,)
            settings["judge"] = judges
        if metrics:
            settings["metrics"] = list(metrics)
        results = sn.score(run, **settings)
        row = reproduction.reads.get("row") or headline or (metrics[0] if metrics else "")
        value = results.value(row) if row else results.value()
    if value is None:
        raise SnellenError(f"no value of {row or 'the headline'}")
    return round(100 * value, 2) if reproduction.unit == "percent" else round(value, 2)


def finding_of(clones: Path, entry: BenchmarkSpec, reproduction: Reproduction) -> Finding:
    try:
        return Finding(entry, reproduction, rescored(clones, entry, reproduction))
    except (subprocess.CalledProcessError, SnellenError, KeyError, ValueError) as error:
        return Finding(entry, reproduction, None, f"{type(error).__name__}: {error}")


# --- writing ---------------------------------------------------------------------------------------------------------


def table(findings: Sequence[Finding]) -> str:
    """The findings in Markdown, the worst first."""
    lines = [
        "| benchmark | model | printed | Snellen | difference | read by | source | why they differ |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for finding in findings:
        of = finding.reproduction
        value = "none" if finding.rescored is None else f"{finding.rescored:.2f}"
        difference = "" if finding.rescored is None else f"{finding.rescored - of.printed:+.2f}"
        files = f"[{of.repository}](https://github.com/{of.repository})"
        lines.append(
            f"| `{finding.entry.short}` | {of.model} | {of.printed:g} | {value} | {difference} | {of.reader} | "
            f"{of.source}; replies: {files} | {of.why} |"
        )
    lines += ["", marks(findings)]
    return "\n".join(lines)


def marks(findings: Sequence[Finding]) -> str:
    """How many benchmarks are reproduced, and for how many models each."""
    agreements: dict[str, list[bool]] = {}
    for finding in findings:
        agrees = finding.difference <= REPRODUCED_WITHIN + 1e-9
        agreements.setdefault(finding.entry.short, []).append(agrees)

    reproduced: list[str] = []
    tried: list[str] = []
    for name in sorted(agreements):
        rows = agreements[name]
        if any(rows):
            reproduced.append(f"`{name}` ({sum(rows)} of {len(rows)})")
        else:
            tried.append(f"`{name}`")
    text = f"{len(reproduced)} benchmarks are reproduced: {', '.join(reproduced)}."
    if tried:
        text += f" Tried without success: {', '.join(tried)}."
    return f"{text} All others have {OWN_NUMBER}."


def recorded() -> list[Finding]:
    """What the entries say, without a run."""
    findings: list[Finding] = []
    for entry in entries().values():
        for of in entry.published.reproductions if entry.published else ():
            findings.append(Finding(entry, of, of.rescored))
    return findings


def worst_first(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (-finding.difference, finding.entry.name))


def write_measured(finding: Finding) -> None:
    """Put what was measured behind the printed figure in the entry's file."""
    path = Path(str(entry_file(finding.entry)))
    of = finding.reproduction
    blocks = path.read_text().split("[[published.reproductions]]")
    for index, block in enumerate(blocks[1:], 1):
        if f'model = "{of.model}"' not in block:
            continue
        block = re.sub(r"^rescored = .*\n", "", block, flags=re.MULTILINE)
        if finding.rescored is not None:
            measured = rf"\g<1>rescored = {finding.rescored:g}\n"
            block = re.sub(r"^(printed = .*\n)", measured, block, flags=re.MULTILINE)
        blocks[index] = block
    path.write_text("[[published.reproductions]]".join(blocks))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", type=Path)
    parser.add_argument("--only", default="", help="words in the benchmark, model or repository")
    parser.add_argument("--write", action="store_true", help="write the page and the entries")
    chosen = parser.parse_args(arguments)

    findings = []
    missing: set[str] = set()
    for entry in entries().values():
        for reproduction in entry.published.reproductions if entry.published else ():
            title = f"{entry.name} {reproduction.model} {reproduction.repository}"
            if chosen.only not in title:
                continue
            repository = reproduction.repository.partition("@")[0]
            if (chosen.clones / repository.replace("/", "+")).is_dir():
                findings.append(finding_of(chosen.clones, entry, reproduction))
            else:
                missing.add(repository)  # what was measured from it stays
    findings = worst_first(findings)
    print(table(findings))
    for finding in findings:
        if finding.fault:
            print(f"{finding.entry.name} {finding.reproduction.model}: {finding.fault}")
    if missing:
        print(f"not scored, because {chosen.clones} has no clone of: {', '.join(sorted(missing))}")
    if chosen.write:
        for finding in findings:
            write_measured(finding)
        measured = {(f.entry.name, f.reproduction.model): f for f in findings}
        everything = [measured.get((f.entry.name, f.reproduction.model), f) for f in recorded()]
        text = table(worst_first(everything))
        page = PAGE.read_text()
        PAGE.write_text(TABLE.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page))


if __name__ == "__main__":
    main()
