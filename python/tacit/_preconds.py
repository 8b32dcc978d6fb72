"""Preconditioners of stored matrices as objects: ``precond=tacit.precond.Ilu0(blocks=4)``.

Made by scripts/describe.py from the tables of the compiled part; not to be edited.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from ._options import Described


@dataclasses.dataclass(frozen=True, kw_only=True)
class Jacobi(Described):
    """Divides by the diagonal.

    Parameters
    ----------
    absolute : bool, optional
        By the magnitude of the diagonal. Default: false.
    """

    name: ClassVar[str] = "jacobi"
    absolute: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockJacobi(Described):
    """Works on each rank's diagonal block, without messages.

    Parameters
    ----------
    solver : one of ['ilu0', 'ic0', 'spai', 'fsai'], optional
        Of each rank's block. Default: ilu0.
    blocks : int, optional
        Blocks that the rows of a rank are cut into, one a thread. At least 1 block. Default: 1.
    """

    name: ClassVar[str] = "block-jacobi"
    solver: Literal["ilu0", "ic0", "spai", "fsai"] | None = None
    blocks: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ilu0(Described):
    """Incomplete LU factors of each rank's diagonal block, without fill.

    Parameters
    ----------
    blocks : int, optional
        Blocks that the rows of a rank are cut into, one a thread. At least 1 block. Default: 1.

    References
    ----------
    Saad, Iterative methods for sparse linear systems (2003), section 10.3.
    """

    name: ClassVar[str] = "ilu0"
    blocks: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ic0(Described):
    """Incomplete Cholesky factors of each rank's diagonal block, without fill: Hermitian definite A.

    Parameters
    ----------
    blocks : int, optional
        Blocks that the rows of a rank are cut into, one a thread. At least 1 block. Default: 1.

    References
    ----------
    Meijerink, van der Vorst (1977), doi 10.1090/S0025-5718-1977-0438681-4.
    """

    name: ClassVar[str] = "ic0"
    blocks: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spai(Described):
    """A sparse approximate inverse on the pattern of A: an apply is a product.

    Parameters
    ----------
    local : bool, optional
        Couplings between ranks are dropped: an apply sends nothing. Default: false.

    References
    ----------
    Grote, Huckle (1997), doi 10.1137/S1064827594276552.
    """

    name: ClassVar[str] = "spai"
    local: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fsai(Described):
    """A factorised sparse approximate inverse on the pattern of A, for cg.

    Parameters
    ----------
    local : bool, optional
        Couplings between ranks are dropped: an apply sends nothing. Default: false.

    References
    ----------
    Kolotilina, Yeremin (1993), doi 10.1137/0614004.
    """

    name: ClassVar[str] = "fsai"
    local: bool | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Polynomial(Described):
    """A polynomial in the matrix: no reductions, as parallel as the matrix.

    Parameters
    ----------
    kind : one of ['chebyshev', 'neumann'], optional
        Of the polynomial: least error over an interval, or a geometric series. Default: chebyshev.
    degree : int, optional
        Products with A in an apply. At least 0 product. Default: 4.
    lambda_min : float, optional
        Chebyshev: lower end of the interval of D^-1 A. A number. Default: estimated.
    lambda_max : float, optional
        Chebyshev: upper end of the interval of D^-1 A. A number. Default: estimated.
    relaxation : float, optional
        Neumann: omega. A number. Default: 1.

    References
    ----------
    Saad, Iterative methods for sparse linear systems (2003), section 12.3.2; neumann: Dubois, Greenbaum, Rodrigue
    (1979), doi 10.1007/BF02243566.
    """

    name: ClassVar[str] = "polynomial"
    kind: Literal["chebyshev", "neumann"] | None = None
    degree: int | None = None
    lambda_min: float | None = None
    lambda_max: float | None = None
    relaxation: float | None = None


__all__ = ["BlockJacobi", "Fsai", "Ic0", "Ilu0", "Jacobi", "Polynomial", "Spai"]
