"""The rating form in a real browser, offline, from the disk: keyboard, what it keeps, what it saves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mini_ehub
import snellen as sn
from browser import CHROMIUM, browsing
from snellen.models.embedded import Scripted
from snellen.scoring.rating_study import RatingStudy
from snellen_lab.ratings.form import make_form
from snellen_lab.ratings.gathering import gather, read_gathered

MARKUP = "<b>1.</b> Row. <img src=x onerror=document.title='run'> </script>"


@pytest.mark.skipif(CHROMIUM is None, reason="waits for chromium")
def test_a_form_is_filled_in_by_keys_kept_over_a_reload_and_read_back(tmp_path: Path) -> None:
    mini_ehub.official("minecraft", tmp_path / "files")
    benchmark = sn.build(
        "lvlm-ehub/minecraft", source=tmp_path / "files", to=tmp_path / "minecraft"
    )
    sn.evaluate(
        Scripted(lambda request: MARKUP, name="quokka"),
        str(benchmark.folder),
        runs=tmp_path,
        name="quokka",
    )
    folder = tmp_path / "study"
    made = make_form(
        [tmp_path / "quokka"], RatingStudy.find("lvlm-ehub-embodied"), folder, checks=1
    )
    with browsing(tmp_path) as page:
        page.open(made.path.as_uri())
        page.press(*"Ann")
        page.press("Enter")
        order = page.run("state.order")
        assert sorted(order) == [1, 2, 3, 4] and order == page.run("orderFor('Ann')")
        assert len({tuple(page.run(f"orderFor('rater {n}')")) for n in range(12)}) > 3
        checks = {item.number for item in made.key.items if item.is_check}
        for number in order[:2]:
            shown = page.run("document.getElementById('reply').textContent")
            assert ("choose" in shown) if number in checks else (shown == MARKUP)
            assert page.run("document.querySelectorAll('#reply *').length") == 0
            assert page.run("document.images[0].naturalWidth") == 96
            page.press("5", "4", "1", "3", "2", "Enter")
        page.press("3", "b", "2")
        page.open(made.path.as_uri())
        page.wait_until("document.querySelector('output') !== null")
        assert page.run("document.querySelector('output').textContent") == "2 of 4; 2 not finished"
        page.run("go(99)")
        assert page.run("document.getElementById('gaps').textContent").startswith(
            "2 of 4 items are not finished"
        )
        page.download("document.getElementById('save-json').click()")
        page.download("document.getElementById('save-csv').click()")
        assert page.run("document.title") == "Plans for embodied tasks"
        assert set(page.requested) == {made.path.as_uri()}
    assert gather(folder, [tmp_path / "ratings-Ann.json"]).new_raters == 1
    assert gather(folder, [tmp_path / "ratings-Ann.csv"]).new_raters == 0
    [sheet] = read_gathered(folder)
    names = [dimension.name for dimension in made.key.study.dimensions]
    first, second, third, _ = order
    assert sheet.order == () and sheet.rater == "Ann"
    assert json.loads((tmp_path / "ratings-Ann.json").read_text())["order"] == order
    assert sheet.ratings == {
        first: dict(zip(names, (5, 4, 1, 3, 2), strict=True)),
        second: dict(zip(names, (2, 4, 1, 3, 2), strict=True)),
        third: {"object_recognition": 3},
    }
