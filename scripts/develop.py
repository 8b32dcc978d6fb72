"""Makes the package of this folder importable in the virtual environment that runs this file, as pip install -e would.

Written by hand because it takes no build step: ./run builds the module with the same CMake folder as the C++ tests, and
ranks that import at the same time must never start a build.
"""

import os
import re
import stat
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, place = settings["project"], settings["tool"]["scikit-build"]["metadata"]["version"]
    name, found = project["name"], re.search(place["regex"], (ROOT / place["input"]).read_text())
    assert found, place
    version = found["value"]
    site = Path(sysconfig.get_path("purelib"))
    path = site / "tacit_source.pth"
    path.write_text(f"{ROOT / 'python'}\n")

    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    for old in (*site.glob("tacit-*.dist-info"), *site.glob("tacit_solvers-*.dist-info")):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    info.mkdir()
    scripts = Path(sysconfig.get_path("scripts"))
    entries = project.get("scripts", {})
    files = {
        info / "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        info / "INSTALLER": "tacit\n",
        info / "entry_points.txt": "[console_scripts]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()),
    }
    for file, text in files.items():
        file.write_text(text)
    record = [*files, path]
    for command, target in entries.items():
        module, function = target.split(":")
        # The second line is a string for Python and a command for sh: a #! line allows neither blanks nor long paths.
        script = scripts / command
        quote = '"' if "'" in sys.executable else "'"
        script.write_text(
            "#!/bin/sh\n"
            f'\'exec\' {quote}{sys.executable}{quote} "$0" "$@"\n'
            f"import sys\nfrom {module} import {function}\n\nsys.exit({function}())\n"
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        record.append(script)
    record.append(info / "RECORD")
    (info / "RECORD").write_text("".join(f"{os.path.relpath(file, site)},,\n" for file in record))


if __name__ == "__main__":
    main()
