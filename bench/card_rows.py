"""How many rows of vendors' cards have entries (bench/card_rows.toml), as Markdown.

    python bench/card_rows.py

A row counts if each of its entries exists. Rows of agents and code are out of scope and counted apart.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from snellen.catalogue import entries

CARDS = Path(__file__).with_name("card_rows.toml")


def cards() -> dict[str, dict[str, Any]]:
    """Return the cards by model.

    Raises:
        SystemExit: A row names an entry that does not exist.
    """
    found: dict[str, dict[str, Any]] = tomllib.loads(CARDS.read_text(encoding="utf-8"))
    for model, card in found.items():
        for row, names in card["rows"].items():
            for name in names:
                if full_name(name) not in entries():
                    raise SystemExit(f"{model}, {row}: {name} is no entry")
    return found


def full_name(name: str) -> str:
    return name if "/" in name else f"modern/{name}"


def main() -> None:
    print("| card | rows in scope | with entries | without | agents and code |")
    print("|---|---|---|---|---|")
    for model, card in cards().items():
        covered = len(card["rows"])
        total = covered + len(card["missing"])
        missing = ", ".join(card["missing"])
        print(f"| {model} | {total} | {covered} | {missing} | {len(card['out_of_scope'])} |")


if __name__ == "__main__":
    main()
