"""Train the reader of replies: `python training/reader/train.py` writes extraction/reader.npz, always the same file.

It learns from all labelled replies of `inputs.py`; those made from forms weigh less. The trees grow in LightGBM
(`pip install lightgbm==4.7.0`), which nothing else needs; the file holds plain arrays, a digest of what it was made of
and a sample of its clues. Probabilities and error rates come from readings of hands that the trees had not seen: the
hands are dealt into folds, and each is read by trees that grew on the others. An error rate is that of natural replies
(hands with that word in their names).
"""

from __future__ import annotations

import io
import json
import zipfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import lightgbm  # type: ignore[import-not-found]
import numpy as np
from inputs import HERE, KINDS, Case, digest, hands, looked_at, sampled

from snellen.extraction import reader

TARGET = HERE.parents[1] / "src" / "snellen" / "extraction" / reader.MODEL
NATURAL = "natural"
"""What the names of sets have that are written as models write."""
KINDS_OF_SETS = (NATURAL, "awkward", "swaps")
"""What the names of sets begin with; behind it stands who wrote them."""
VERSION = "reader-4"
FOLDS = 4
MADE, WEIGHT_OF_MADE = "made", 0.3
"""What the names of replies begin with that were made from forms, and what such a reply weighs; others weigh 1."""
GROWTH = {
    "n_estimators": 400, "num_leaves": 63, "max_depth": 12, "learning_rate": 0.06, "min_child_samples": 10,
    "extra_trees": True, "subsample": 0.8, "subsample_freq": 1, "colsample_bytree": 0.3, "reg_lambda": 3,
    "max_bin": 63, "random_state": 1, "deterministic": True, "force_row_wise": True, "n_jobs": 1, "verbose": -1,
}  # fmt: skip

Array = np.ndarray[Any, Any]


class Rows:
    """What is to be learnt: a row for each option of each reply that is weighed."""

    def __init__(self, cases: dict[str, list[Case]], pool: ProcessPoolExecutor) -> None:
        rows: list[Array] = []
        gold, reply, hand, kinds = [], [], [], []
        self.names: tuple[str, ...] = ()
        number = plain = wrong = 0
        every = [(name, case) for name, some in cases.items() for case in some]
        views = pool.map(looked_at, [case for _, case in every], chunksize=200)
        for (name, case), (said, names, values, kinds_here) in zip(every, views, strict=True):
            if said is not None:
                plain += 1
                wrong += said.choice != case["gold"] and said.choice is not None
                continue
            self.names = names
            rows.append(values)
            gold += [place == case["gold"] for place in range(len(values))]
            kinds += kinds_here
            reply += [number] * len(values)
            hand += [name] * len(values)
            number += 1
        print(
            f"{plain:,} replies say it plainly, {wrong} of them otherwise; {number:,} are weighed, {len(gold):,} rows",
            flush=True,
        )
        self.rows, self.gold, self.reply = (
            np.vstack(rows).astype(np.float32),
            np.array(gold),
            np.array(reply),
        )
        self.hand, self.kind = np.array(hand), np.array(kinds)
        self.weight = np.where(np.char.startswith(self.hand, MADE), WEIGHT_OF_MADE, 1.0)


def grown(rows: Rows, kept: Array) -> lightgbm.Booster:
    trees = lightgbm.LGBMClassifier(**GROWTH)
    trees.fit(rows.rows[kept], rows.gold[kept], sample_weight=rows.weight[kept])
    return trees.booster_


def folds(rows: Rows) -> Array:
    """The fold of each row: that of who wrote it."""
    writers = [
        name.split("-", 1)[-1] if name.split("-")[0] in KINDS_OF_SETS else name
        for name in rows.hand
    ]
    fold = {writer: number % FOLDS for number, writer in enumerate(sorted(set(writers)))}
    return np.array([fold[writer] for writer in writers])


def held_out(rows: Rows, number: int) -> Array:
    """The log odds that trees which had not seen the hands of a fold give its rows."""
    fold = folds(rows)
    return np.asarray(
        grown(rows, fold != number).predict(rows.rows[fold == number], raw_score=True)
    )


def held_out_odds(rows: Rows, pool: ProcessPoolExecutor) -> Array:
    """The log odds that trees which had not seen a hand give its rows: [rows]."""
    fold, odds = folds(rows), np.zeros(len(rows.gold))
    for number, values in enumerate(pool.map(partial(held_out, rows), range(FOLDS))):
        odds[fold == number] = values
    return odds


def isotonic(odds: Array, right: Array) -> tuple[Array, Array]:
    """Pool adjacent violators: ascending odds, and the share that is right from there on."""
    order = np.argsort(odds, kind="stable")
    pools: list[list[float]] = []
    for at in order:
        pools.append([float(right[at]), 1.0, odds[at], odds[at]])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            last = pools.pop()
            pools[-1] = [pools[-1][0] + last[0], pools[-1][1] + last[1], pools[-1][2], last[3]]
    # A pool of a few at either end must not claim certainty: half a reply more of each kind.
    shares = np.array([(some + 0.5) / (count + 1) for some, count, _, _ in pools])
    middles = np.array([(low + high) / 2 for _, _, low, high in pools])
    return middles, np.maximum.accumulate(shares)


def bounds(rows: Rows, chances: Array, kind: int) -> tuple[Array, Array]:
    """Ascending probabilities of a kind of readings, and the bound on the share of wrong ones from each on. Of natural
    replies: adversarial ones are for learning, and no sample of what models say."""
    readings = []
    natural = np.char.find(rows.hand.astype(str), NATURAL) >= 0
    for reply in np.unique(rows.reply[natural]):
        at = np.flatnonzero(rows.reply == reply)
        best = at[chances[at].argmax()]
        if rows.kind[best] == kind:
            readings.append((chances[best] / max(1.0, chances[at].sum()), not rows.gold[best]))
    readings.sort(reverse=True)
    limits, wrong = (
        np.array([chance for chance, _ in readings]),
        np.cumsum([fault for _, fault in readings]),
    )
    errors = (wrong + 1) / (np.arange(len(readings)) + 2)
    errors = np.minimum.accumulate(errors[::-1])[::-1]  # a limit may be as low as the bound allows
    keep = np.unique(np.linspace(0, len(limits) - 1, 500).astype(int))[::-1]
    return limits[keep], errors[keep]


def arrays(booster: lightgbm.Booster) -> tuple[dict[str, Array], int]:
    """The trees as `snellen.extraction.reader.Trees` has them."""
    nodes: list[tuple[int, float, int, int, float]] = []
    deepest = 0

    def add(node: dict[str, Any], depth: int) -> int:
        nonlocal deepest
        deepest = max(deepest, depth)
        place = len(nodes)
        if "leaf_value" in node:
            nodes.append((0, np.inf, place, place, node["leaf_value"]))
            return place
        nodes.append((node["split_feature"], node["threshold"], 0, 0, 0.0))
        left, right = add(node["left_child"], depth + 1), add(node["right_child"], depth + 1)
        nodes[place] = (node["split_feature"], node["threshold"], left, right, 0.0)
        return place

    roots = [add(tree["tree_structure"], 0) for tree in booster.dump_model()["tree_info"]]
    column, limit, left, right, value = (np.array(part) for part in zip(*nodes, strict=True))
    return {
        "roots": np.array(roots, np.int32),
        "column": column.astype(np.int16),
        "limit": limit,
        "children": np.stack([left, right], axis=1).ravel().astype(np.int32),
        "value": value.astype(np.float32),
    }, deepest


def main() -> None:
    cases = hands()
    with ProcessPoolExecutor() as pool:
        rows = Rows(cases, pool)
        last = pool.submit(grown, rows, np.full(len(rows.gold), True))
        odds, booster = held_out_odds(rows, pool), last.result()
    real = ~np.char.startswith(rows.hand, MADE)
    scores, chances = isotonic(odds[real], rows.gold[real])
    held: dict[str, Array] = {}
    for number, kind in enumerate(KINDS):
        held[f"{kind} chances"], held[f"{kind} errors"] = bounds(
            rows, np.interp(odds, scores, chances), number
        )
    trees, depth = arrays(booster)
    inputs = digest(cases, rows.names)
    about = json.dumps({"version": VERSION, "names": rows.names, "depth": depth, "inputs": inputs})
    sample = np.vstack(
        [values for _, _, values, _ in map(looked_at, sampled(cases)) if len(values)]
    ).astype(np.float32)
    written = {"scores": scores, "chances": chances, **held, **trees}
    write(written | {"about": np.array(about), "sample": sample})
    reader.model.cache_clear()
    own = reader.model().trees.log_odds(rows.rows[:2_000].astype(np.float64))
    theirs = booster.predict(rows.rows[:2_000], raw_score=True)
    print(
        f"{TARGET.name}: {TARGET.stat().st_size / 1e6:.2f} MB, {len(trees['column']):,} nodes, depth {depth}"
    )
    print(f"largest difference to the library's log odds: {abs(own - theirs).max():.1e}")
    for error in (0.002, 0.005, 0.01, 0.02, 0.03, 0.05):
        direct, prose = (reader.model().limit(error, direct=kind == "direct") for kind in KINDS)
        print(
            f"at most {error:.1%} wrong: from a probability of {direct:.3f} on, of {prose:.3f} in prose"
        )


def write(arrays_of: dict[str, Array]) -> None:
    """The file, of the same bytes whenever the arrays are the same: entries in order, without the time of day."""
    with zipfile.ZipFile(TARGET, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, values in sorted(arrays_of.items()):
            held = io.BytesIO()
            np.lib.format.write_array(held, values, allow_pickle=False)
            archive.writestr(
                zipfile.ZipInfo(f"{name}.npy"), held.getvalue(), zipfile.ZIP_DEFLATED, 9
            )


if __name__ == "__main__":
    main()
