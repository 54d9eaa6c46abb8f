"""Which parts of its published number each benchmark lacks, worst first, as Markdown.

    python bench/published_parts.py [SUITE]

A part counts with its source: the makers' prompt, or that of others whose figures are printed, and the mean. A prompt or a
decoding that was never published is not lacking, if the entry says why. Below the table stands how many benchmarks have each part.
"""

from __future__ import annotations

import argparse
from collections import Counter

from snellen.catalogue import BenchmarkSpec, entries


def parts_of(spec: BenchmarkSpec) -> dict[str, bool]:
    """Return which parts of its published number an entry declares."""
    number = spec.published
    if number is None:
        return dict.fromkeys(
            ("prompt", "makers' prompt", "decoding", "mean", "split", "reproduction"), False
        )
    has_prompt = bool(number.prompt and number.prompt_source)
    has_none = bool(number.no_prompt)  # the makers published none, and the entry says why
    return {
        "prompt": has_prompt or has_none,
        "makers' prompt": has_none or (has_prompt and not number.prompt_by),
        "decoding": bool(number.decoding or number.no_decoding),
        "mean": bool(number.aggregate and number.aggregate_source),
        "split": bool(number.split),
        "reproduction": number.is_reproduced,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", nargs="?", default="modern")
    suite = parser.parse_args().suite
    parts = {spec.short: parts_of(spec) for spec in entries().values() if spec.suite == suite}

    def n_lacking(name: str) -> int:
        return list(parts[name].values()).count(False)

    print("| benchmark | lacks |")
    print("|---|---|")
    for name in sorted(parts, key=lambda name: (-n_lacking(name), name)):
        lacking = [part for part, is_there in parts[name].items() if not is_there]
        if lacking:
            print(f"| `{name}` | {', '.join(lacking)} |")
    counts = Counter(part for own in parts.values() for part, is_there in own.items() if is_there)
    print(f"\nOf {len(parts)}: {', '.join(f'{part} {count}' for part, count in counts.items())}.")


if __name__ == "__main__":
    main()
