"""`tacit reproduce`: every row of the papers runs at a small size, and verdicts follow from the numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import tacit
from tacit import cli
from tacit.app import reproduce
from tacit.app.reproduce import Claim, Ours, Row, programs, row, simulated

MADE = [row for row in reproduce.ROWS if row.make is not None]


def test_every_row_is_whole() -> None:
    ids = [one.id for one in reproduce.ROWS]
    assert len(set(ids)) == len(ids)
    for one in reproduce.ROWS:
        assert re.fullmatch(r"00[0-4]/(figure|table)-\d+|004/section-5\.1", one.id), one.id
        if one.make is None:
            assert one.why, one.id
            assert not one.small
        else:
            assert one.how, one.id
            assert one.claims, one.id
            assert one.small, one.id
            assert one.full, one.id
            assert set(one.small) == set(one.full), one.id
        for claim in one.claims:
            assert claim.paper > 0, (one.id, claim.what)


def test_all_figures_and_tables_are_there() -> None:
    """Those of each paper that it numbers itself."""
    numbered = {"000": range(1, 20), "001": range(7, 17), "002": range(2, 9), "003": range(1, 13), "004": range(1, 8)}
    for paper, numbers in numbered.items():
        found = {int(one.id.partition("-")[2]) for one in reproduce.ROWS if one.id.startswith(f"{paper}/figure-")}
        assert found == set(numbers), paper
    assert sum(one.id.startswith("004/table-") for one in reproduce.ROWS) == 5


@pytest.mark.parametrize("one", MADE, ids=lambda one: one.id)
def test_row_at_a_small_size(one: Row) -> None:
    if programs.missing(one.needs):
        pytest.skip(f"{one.needs} is not built")
    assert one.make is not None
    made = one.make(**one.small)
    assert made
    for ours in made.values():
        assert sum(value is not None for value in ours) >= 1
    # A number of the paper has one of ours, but for the numbers of ranks, or the reason why not.
    counted = {re.sub(r"\d+ (processes|GPUs)", r"\1", what) for what in made}
    for claim in one.claims:
        assert re.sub(r"\d+ (processes|GPUs)", r"\1", claim.what) in counted or claim.apart, claim.what


def test_verdicts() -> None:
    def judged(paper: float, ours: Ours | None, size: row.Size = "full", **more: str) -> tuple[str, str]:
        one = Row("001/figure-1", "a row", (), lambda: {}, **more)
        found = row.judged(one, Claim("number", paper, apart="why"), ours, size)
        return found["verdict"], found["reason"]

    assert judged(4.0, Ours(5.0)) == judged(4.0, Ours(3.0)) == ("within 25 %", "")
    assert judged(4.0, Ours(5.01)) == ("apart", "why")
    assert judged(4.0, Ours(4.0, simulated=9.0)) == ("within 25 %", "")  # measured comes first
    assert judged(4.0, Ours(simulated=9.0, ideal=4.0)) == ("apart", "why")  # ideal is only shown
    assert judged(4.0, Ours(9.0), "small") == ("small size", "")
    assert judged(4.0, Ours(4.0), circular="it went in") == ("circular", "it went in")
    assert judged(4.0, None) == ("not reproduced", "why")

    def broken() -> dict[str, Ours]:
        raise ValueError("no such thing")

    failed = reproduce.run([Row("001/figure-1", "a row", (Claim("n", 1.0),), broken)])
    assert failed["rows"][0]["numbers"][0]["reason"] == "ValueError: no such thing"
    assert failed["verdicts"] == {"failed": 1}
    missing = reproduce.run([Row("001/figure-1", "a row", (Claim("n", 1.0),), lambda: {}, needs=("no_program",))])
    (number,) = missing["rows"][0]["numbers"]
    assert number["verdict"] == "not reproduced"
    assert "no_program" in number["reason"]
    assert missing["verdicts"] == {"not reproduced": 1}


def test_a_share_of_the_unknowns_on_a_machine_as_much_slower() -> None:
    """Kernels of half the bytes on a machine of half the speed take as long; so does a cycle."""
    from tacit.app.reproduce.paper001 import five_points
    from tacit.app.reproduce.simulated import Cycles

    whole = Cycles(tacit.csr(five_points(128)), simulated.machine("tsubame"), 10, 20).of(16, "gmres")
    share = Cycles(tacit.csr(five_points(64)), simulated.machine("tsubame", 4, 2), 10, 20).of(16, "gmres")
    assert share.ideal == pytest.approx(whole.ideal, rel=0.03)
    assert share.simulated == share.ideal
    slow = Cycles(tacit.csr(five_points(64)), simulated.machine("tsubame", 4, 2), 10, 20).of(
        64, "pipelined-gmres", depth=2
    )
    assert slow.simulated is not None
    assert slow.ideal is not None
    assert slow.simulated >= slow.ideal


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, told = tmp_path / "out", tmp_path / "r.json"
    words = ["reproduce", "001/figure-11", "003/figure-5", "004/figure-1", "000/figure-12", "--size", "small"]
    assert cli.main([*words, "--output", str(folder), "--json", str(told)]) == 0
    assert "003/figure-5" in capsys.readouterr().out
    facts = json.loads(told.read_text())
    assert facts["schema"] == "tacit.reproduce/1"
    assert [one["id"] for one in facts["rows"]] == ["000/figure-12", "001/figure-11", "003/figure-5", "004/figure-1"]
    assert facts["verdicts"] == {"circular": 1, "small size": 6, "no numbers": 1}
    page = (folder / "index.html").read_text()
    for text in ("001/figure-11", "2.52", "simulated, ideal", "numbers.png", "A drawing"):
        assert text in page
    assert (folder / "numbers.png").read_bytes().startswith(b"\x89PNG")


def test_command_lists_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reproduce", "--list"]) == 0
    said = capsys.readouterr().out
    for one in reproduce.ROWS:
        assert one.id in said
    assert cli.main(["reproduce"]) == 0
    assert capsys.readouterr().out == said
    for words, hint in ((["001/figur-10"], '"001/figure-10"'), (["001", "--size", "medium"], "small")):
        assert cli.main(["reproduce", *words]) == 2
        assert hint in capsys.readouterr().err
