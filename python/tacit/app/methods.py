"""The methods of reconstructions and their options: those of the compiled part, and those made of its products here."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import SimpleNamespace
from typing import Any, NamedTuple

from .._described import RECONSTRUCT, RECONSTRUCT_NAMES
from .._options import Option, fill

# Help texts need the tables, and neither NumPy nor the compiled part.

__all__ = ["METHODS", "NAMES", "OPTIONS", "PENALTIES", "Way", "checked"]


class Way(NamedTuple):
    """A method that is made of products with A and A^T here."""

    text: str
    source: str
    takes: str
    iterations: int  #: where none are given


METHODS: Mapping[str, Way] = {
    "sart": Way(
        "for each subset s of the angles: x := x + w C_s A_s^T R_s (b_s - A_s x), R_s and C_s the inverse sums of rows"
        " and columns of A_s",
        "Andersen, Kak (1984), doi 10.1177/016173468400600107",
        "discrepancy relaxation nonnegative subsets",
        10,
    ),
    "osem": Way(
        "mlem with the angles of a subset at a time: x := x C_s A_s^T (b_s / A_s x)",
        "Hudson, Larkin (1994), doi 10.1109/42.363108",
        "discrepancy subsets",
        10,
    ),
    "mlem": Way(
        "x := x C A^T (b / A x), C the inverse sums of columns: the likelihood of counts b of emissions x rises;"
        " x >= 0, and b < 0 counts as 0",
        "Shepp, Vardi (1982), doi 10.1109/TMI.1982.4307558",
        "discrepancy",
        50,
    ),
    "tikhonov": Way(
        "min |(b - A x) / sigma|^2 + l |L x|^2, sigma the noise, L the gradient or 1, by LSQR of both parts together",
        "Tikhonov (1963); Paige, Saunders (1982), doi 10.1145/355984.355989",
        "regularisation penalty",
        5,
    ),
    "tv": Way(
        "min 1/2 |(b - A x) / sigma|^2 + l sum |gradient x|, total variation: flat parts and sharp edges; the sum is"
        " replaced by squares weighted by the last gradient, which are minimised by LSQR",
        "Rudin, Osher, Fatemi (1992), doi 10.1016/0167-2789(92)90242-F; Vogel, Oman (1996), doi 10.1137/0917016",
        "regularisation",
        12,
    ),
}
NAMES = (*RECONSTRUCT_NAMES, *METHODS)
PENALTIES = ("gradient", "image")


def _takers(name: str, compiled: tuple[str, ...]) -> tuple[str, ...]:
    return (*(compiled or RECONSTRUCT_NAMES), *(m for m, way in METHODS.items() if name in way.takes.split()))


def _options() -> dict[str, Option]:
    made = {name: option._replace(takers=_takers(name, option.takers)) for name, option in RECONSTRUCT.items()}
    usual = "30; " + "; ".join(f"{name} {way.iterations}" for name, way in METHODS.items())
    text = "at most; sart, osem: over all subsets; tikhonov, tv: of 10 steps of LSQR each"
    made["iterations"] = RECONSTRUCT["iterations"]._replace(default=None, absent=usual, text=text, takers=())
    made["subsets"] = Option(
        *("whole", 10, (), 1.0, inf, False, 0, "at least 1 subset"),
        "of the angles, equally far apart; as many as angles for the original sart",
        *("", _takers("subsets", ("",))[1:]),
    )
    made["regularisation"] = Option(
        *("real", None, (), 0.0, inf, True, 0, "a number > 0"),
        "r: l = r q, with q^2 the mean of A^T sigma^-2, the noise of the gradient of the first part at a pixel;"
        " tikhonov: r q / rms(L x), with x an image by cgls that ends at the noise. More is smoother",
        *("tv 2, tikhonov 1", _takers("regularisation", ("",))[1:]),
    )
    made["penalty"] = Option(
        *("choice", "gradient", PENALTIES, -inf, inf, False, 0, ""),
        "L: differences of neighbouring pixels, or the image itself",
        *("", _takers("penalty", ("",))[1:]),
    )
    return made


OPTIONS: Mapping[str, Option] = _options()


def checked(method: str, options: Mapping[str, Any]) -> Any:
    """The options of a reconstruction, without those of the projector, as an object; ValueError or TypeError for
    options that the method does not take.
    """
    from .._support import choose

    choose("method", method, NAMES)
    for name, value in options.items():
        takers = OPTIONS[name].takers if name in OPTIONS else ()
        own = name in RECONSTRUCT and method in RECONSTRUCT_NAMES  # which the compiled part checks
        if takers and method not in takers and not own and value != OPTIONS[name].default:
            raise ValueError(f"{name} {value} is an option of {', '.join(takers)}; {method} has none")
    if method in RECONSTRUCT_NAMES:
        return _compiled(method, {name: value for name, value in options.items() if name not in _ONLY_HERE})
    values = {name: option.default for name, option in OPTIONS.items()}
    values |= {"method": method, "iterations": METHODS[method].iterations}
    o = fill(SimpleNamespace(**values), "reconstruct", OPTIONS, options)
    for name, value in options.items():
        option = OPTIONS[name]
        number = option.kind in ("whole", "real") and value is not None
        if number and not (option.has(value) and (name != "relaxation" or value < option.most)):
            raise ValueError(f"{name} is {value}; {option.needed} is needed")
    return o


_ONLY_HERE = [name for name in OPTIONS if name not in RECONSTRUCT]


def _compiled(method: str, options: dict[str, Any]) -> Any:
    from .. import _core
    from .._support import core

    o = core("ReconstructOptions")()
    o.method = method
    kept = options.get("reorthogonalise")
    if type(kept).__name__ in ("bool", "bool_"):  # True: 1
        options = options | {"reorthogonalise": int(bool(kept))}
    if options.get("iterations", 0) is None:
        options = {name: value for name, value in options.items() if name != "iterations"}
    fill(o, "reconstruct", RECONSTRUCT, options)
    _core.check_reconstruct(o)
    return o
