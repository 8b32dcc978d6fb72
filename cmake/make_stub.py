"""Writes the stub of tacit._core, for type checkers and editors: make_stub.py MODULE_FOLDER OUTPUT

What nanobind finds out, with what `mypy --strict` wants said: the elements of containers, `Any` for objects of Python.
"""

import re
import sys
from pathlib import Path

EXCEPTIONS = """class Error(Exception): ...
class UsageError(Error, ValueError): ...
class InputError(Error, ValueError): ...
class EnvironmentFailure(Error, RuntimeError): ...
class OutOfMemory(EnvironmentFailure, MemoryError): ...
"""


def main() -> None:
    folder, output = sys.argv[1:]
    sys.path.insert(0, folder)
    import _core
    from nanobind.stubgen import StubGen

    stub = StubGen(_core)
    stub.put(_core)
    text = stub.get()
    text = re.sub(r"from tacit import \([^)]*\)\n|^.*(?:Error|Failure) as .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\bobject\b", "Any", text)
    elements_of = {"dict": "str, Any", "list": "Any", "tuple": "Any, ...", "NDArray": "Any", "PathLike": "str"}
    for name, elements in elements_of.items():
        text = re.sub(rf"\b{name}\b(?!\[)", f"{name}[{elements}]", text)
    text = re.sub(r"^from numpy.typing import.*$", "from numpy.typing import NDArray", text, flags=re.MULTILINE)
    head = "from collections.abc import Callable\nfrom typing import Any, TypeVar\n\nT = TypeVar('T')\n"
    place = text.index("\nfrom ") if "\nfrom " in text else 0
    Path(output).write_text(text[:place] + "\n" + head + text[place:] + "\n" + EXCEPTIONS)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # the module works without it
        print(f"no stub of tacit._core: {error}", file=sys.stderr)
