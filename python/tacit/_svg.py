"""Small pictures in SVG for notebooks and reports, made without matplotlib: curves on a logarithmic scale.

Their ground is white, as notebooks and pages may be dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

# Colours that people with any colour vision can tell apart (M. Okabe, K. Ito, 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_POINTS = 400  # of a curve; more are not seen
_GREY, _GRID = "#777", "#e3e3e3"


class Picture:
    """A picture that notebooks show.

    Attributes
    ----------
    svg : str
    """

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_html_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<tacit picture of {len(self.svg)} bytes; notebooks show it>"


def _open(width: int, height: int, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' style="width:100%;max-width:{1.3 * width:.0f}px;height:auto;background:#fff"'
        f' font-family="system-ui, sans-serif" font-size="12" fill="#444"'
        f' aria-label="{escape(label)}">'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = "#444") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def _decades(low: float, high: float, most: int) -> list[int]:
    """Exponents for marks between two numbers, in equal steps."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / most))
    return [e for e in range(first, last + 1) if e % step == 0]


def _marks(most: int) -> list[int]:
    """Round numbers from 0 to the largest, about five."""
    if most <= 0:
        return [0]
    rough = most / 5
    unit = 10 ** math.floor(math.log10(rough)) if rough >= 1 else 1
    step = int(max(1, next((unit * k for k in (1, 2, 5, 10) if unit * k >= rough), unit * 10)))
    return list(range(0, most + 1, step))


def _thinned(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most about 400 points: of each group of neighbours the least and the largest, and the last one."""
    size = math.ceil(2 * len(points) / _POINTS)
    if size < 3:
        return points
    kept: list[tuple[int, float]] = []
    for k in range(0, len(points), size):
        group = points[k : k + size]
        kept += sorted({min(group, key=lambda p: p[1]), max(group, key=lambda p: p[1])})
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]


def convergence(
    curves: Sequence[tuple[str, Iterable[float]]],
    goal: float | None = None,
    verified: float | None = None,
    marks: Sequence[tuple[int, str]] = (),
    width: int = 480,
    height: int = 240,
) -> str:
    """Residuals against iterations as SVG; "" where no residual can be drawn.

    Parameters
    ----------
    curves : sequence of (label, residuals from iteration 0 on)
        Values that are not positive and finite are left out. Labels are shown where there are several.
    goal : float, optional
        A dashed line.
    verified : float, optional
        The recomputed residual, a ring at the end of the first curve.
    marks : sequence of (iteration, text)
        Vertical lines, such as the begin of another method.
    """
    drawn = [(name, [(k, float(r)) for k, r in enumerate(h) if 0 < r < math.inf]) for name, h in curves]
    drawn = [(name, points) for name, points in drawn if points]
    if not drawn:
        return ""
    values = [r for _, points in drawn for _, r in points]
    extra = [v for v in (goal, verified) if v is not None and 0 < v < math.inf]
    low, high = min(values + extra) / 2, max(values + extra) * 2
    last = max(points[-1][0] for _, points in drawn)
    left, right, top, bottom = 52.0, width - 12.0, 10.0, height - 38.0

    def x(k: float) -> float:
        return left + (right - left) * k / max(1, last)

    def y(r: float) -> float:
        return bottom - (bottom - top) * math.log(r / low) / math.log(high / low)

    parts = [_open(width, height, f"residual by iteration, from {values[0]:.1e} to {values[-1]:.1e}")]
    for e in _decades(low, high, 7):
        parts += [_line(left, y(10.0**e), right, y(10.0**e), f'stroke="{_GRID}"')]
        parts += [_text(left - 6, y(10.0**e) + 4, f"1e{e}", "end")]
    for k in _marks(last):
        parts += [
            _line(x(k), bottom, x(k), bottom + 4, f'stroke="{_GREY}"'),
            _text(x(k), bottom + 17, f"{k:,}", "middle"),
        ]
    parts += [
        _line(left, bottom, right, bottom, f'stroke="{_GREY}"'),
        _text((left + right) / 2, height - 5, "iteration", "middle"),
    ]
    for k, text in marks:
        parts += [_line(x(k), top, x(k), bottom, f'stroke="{_GREY}" stroke-dasharray="2 3"')]
        inner = ("end", -4) if x(k) > (left + right) / 2 else ("start", 4)
        parts += [_text(x(k) + inner[1], top + 10, text, inner[0], _GREY)]
    if goal is not None and 0 < goal < math.inf:
        parts += [_line(left, y(goal), right, y(goal), f'stroke="{_GREY}" stroke-dasharray="5 4"')]
        parts += [_text(left + 4, y(goal) - 4, f"asked for: {goal:.0e}", "start", _GREY)]
    for i, (name, points) in enumerate(drawn):
        colour = COLOURS[i % len(COLOURS)]
        way = " ".join(f"{x(k):.1f},{y(r):.1f}" for k, r in _thinned(points))
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        if len(drawn) > 1:
            parts.append(_text(left + 8, bottom - 8 - 15 * (len(drawn) - 1 - i), name, fill=colour))
    if verified is not None and 0 < verified < math.inf:
        style = f'r="4" fill="white" stroke="{COLOURS[0]}" stroke-width="1.6"'
        parts.append(f'<circle cx="{x(drawn[0][1][-1][0]):.1f}" cy="{y(verified):.1f}" {style}/>')
    return "".join([*parts, "</svg>"])
