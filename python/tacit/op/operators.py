"""The classes of operators by the names that older pickles have for them."""

from .base import Operator, _unpickled
from .composed import Composed
from .grids import Stencil
from .stored import Csr, DeviceCsr

__all__ = ["Composed", "Csr", "DeviceCsr", "Operator", "Stencil", "_unpickled"]
