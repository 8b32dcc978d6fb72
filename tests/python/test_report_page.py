"""Results in notebooks, pictures in SVG, and the page on a solve."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from cli_support import poisson
from cli_support import tacit as command
from conftest import laplacian

import tacit
from tacit import _svg, _traffic
from tacit.krylov import TraceEvent


def points(svg: str) -> list[tuple[float, float]]:
    """Of the first curve of a picture."""
    line = ElementTree.fromstring(svg).find("{http://www.w3.org/2000/svg}polyline")
    assert line is not None
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]


def test_a_curve_is_on_a_logarithmic_scale() -> None:
    svg = _svg.convergence([("", [1.0, 1e-2, 1e-4])], goal=1e-4, verified=1e-4, marks=[(1, "a < b")])
    (x0, y0), (x1, y1), (x2, y2) = points(svg)
    assert x1 - x0 == pytest.approx(x2 - x1)
    assert y1 - y0 == pytest.approx(y2 - y1, abs=0.11)
    assert y1 > y0
    assert "a &lt; b" in svg


@pytest.mark.parametrize("history", [[], [np.nan, np.inf], [0.0, 0.0]])
def test_what_cannot_be_drawn(history: list[float]) -> None:
    assert _svg.convergence([("", history)]) == ""


def test_long_and_broken_histories() -> None:
    values = np.geomspace(1, 1e-8, 20001)
    values[7], values[9], values[5000] = np.nan, np.inf, 1e3
    found = points(_svg.convergence([("", values)]))
    assert len(found) < 450
    assert min(y for _, y in found) == pytest.approx(min(y for x, y in found if 155 < x < 157.5))  # the peak is kept
    assert found[-1][0] == 468.0
    assert points(_svg.convergence([("", [0.5])])) == [(52.0, pytest.approx(found[0][1], abs=300))]


def test_results_and_operators_in_notebooks() -> None:
    a = tacit.csr(laplacian(20, 20))
    r = tacit.solve(a, np.ones(400), method="cg", max_iterations=3, fallbacks=False)
    shown = r._repr_html_()
    table, svg = shown.split("</table>")
    assert "max iterations" in table
    assert f"{400:,} unknowns, 1,920 nonzeros, float64" in table
    assert r.advice.split(",")[0] in table
    assert len(points(svg)) == 4
    assert "background:#fff" in svg, "dark text on the ground of a dark notebook"
    assert "1,920 (4.8 a row)" in a._repr_html_()
    inferred = tacit.inference.radixnet(neurons=1024, layers=1).infer(np.ones((2, 1024)))
    assert "residual" not in inferred._repr_html_(), "there is none"
    picture = r.plot()
    assert picture is not None
    assert picture._repr_html_() == svg
    assert "<script" not in tacit.solve(a, np.zeros(400))._repr_html_()  # nothing to draw


def test_time_goes_to_the_outermost_kernel() -> None:
    def event(name: str, category: str, begin: float, end: float, size: int = 0, **more: int) -> TraceEvent:
        return TraceEvent(name, category, begin, end, more.get("rank", 0), more.get("thread", 0), size)

    trace = [
        event("set up amg", "precond", 0, 2),
        event("sparse product", "op", 0.5, 1, 100),
        event("cg", "krylov", 2, 10),
        event("csr product", "op", 3, 4, 10),
        event("amg", "precond", 4, 7),
        event("csr product", "op", 4.5, 6, 20),
        event("sweep", "exec", 7, 9, 40),
        event("wait for sum", "comm", 9, 9.5, 8),
        event("csr product", "op", 3, 4, 10, rank=1),
        event("sum in flight", "comm", 3, 9, 8, thread=1001),
    ]
    found = {part.name: (part.seconds, part.bytes) for part in _traffic.parts(trace)}
    assert found == {
        "making the preconditioner": (2, 100),
        "products with A": (1, 10),
        "preconditioner": (3, 20),
        "vectors": (2, 40),
        "waiting for other ranks": (0.5, 0),
        "the method itself": (1.5, 0),
    }
    assert sum(seconds for seconds, _ in found.values()) == 10


def test_a_copy_in_memory_is_timed() -> None:
    assert 1e8 < _traffic.bandwidth(1) < 1e13


def test_the_page_of_a_result(tmp_path: Path) -> None:
    r = tacit.solve(laplacian(40, 40), np.ones(1600), trace=True)
    r.report(tmp_path / "r.html", title="a <b>")
    page = (tmp_path / "r.html").read_text()
    assert "<h1>a &lt;b&gt;</h1>" in page
    assert '<span class="good">converged</span>' in page
    assert len(re.findall("<h2>", page)) == 6
    assert "<td>cg with block-jacobi (ic0) (A is Hermitian)</td>" in page
    assert "attempt 2" in page
    assert "GB/s" in page
    assert "<td class=number>" in page
    assert "src=" not in page  # it needs no other file
    assert "href" not in page


def test_the_page_of_a_solve_that_was_not_traced(tmp_path: Path) -> None:
    r = tacit.solve(laplacian(30, 30), np.ones((900, 3)), method="cg", max_iterations=2)
    r.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert '<span class="bad">not converged: max iterations</span>' in page
    assert "Advice: " in page
    assert "<code>trace=True</code>" in page
    assert page.count("<td>max iterations</td>") == 3  # a row for each right-hand side


def test_the_page_on_the_command_line(tmp_path: Path) -> None:
    poisson(tmp_path / "a.mtx", 20)
    assert "r.html (report)" in command("solve", "a.mtx", "--report", "r.html", cwd=tmp_path).stdout
    page = (tmp_path / "r.html").read_text()
    assert "reading the file" in page
    assert "tacit solve a.mtx --report r.html" in page
    assert "must end in one of .html" in command("solve", "a.mtx", "--report", "r.txt", cwd=tmp_path, code=2).stderr
