"""packaging/ says what the rest of the repository says: versions, options, packages. Nothing is built here."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGING = ROOT / "packaging"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED = {re.split("[>=<;]", one)[0]: one for one in PROJECT["dependencies"]}


def cmake_options() -> set[str]:
    return set(re.findall(r"^(?:option|set)\((TACIT_\w+)", (ROOT / "CMakeLists.txt").read_text(), re.M))


def system_packages() -> dict[str, str]:
    lines = (ROOT / "scripts/packages.txt").read_text().splitlines()
    return {line.split()[0]: line.split()[1] for line in lines if not line.startswith("#")}


def oldest(name: str) -> str:
    found = re.search(rf"^{name} (\S+)", (ROOT / "cmake/oldest.txt").read_text(), re.M)
    assert found
    return found[1]


def test_each_package_of_the_system_has_a_kind_and_three_names() -> None:
    for line in (ROOT / "scripts/packages.txt").read_text().splitlines():
        if not line.startswith("#"):
            words = line.split()
            assert len(words) == 4, line
            assert words[1] in ("needed", "pypi", "optional"), line
    wanted = set(re.findall(r"^ +want (\S+) ", (ROOT / "scripts/system.sh").read_text(), re.M))
    assert wanted - system_packages().keys() == set()


@pytest.mark.parametrize("file", ["Dockerfile", "tacit.def"])
def test_images_have_all_that_a_build_takes(file: str) -> None:
    text = (PACKAGING / file).read_text()
    without = {"libgtest-dev"}  # C++ tests only
    for package in system_packages().keys() - without:
        assert re.search(rf"(?<!\S){re.escape(package)}(?!\S)", text), f"{file} lacks {package}"
    extras = re.search(r"/source\[([\w,]+)\]", text)
    assert extras
    assert set(extras[1].split(",")) <= PROJECT["optional-dependencies"].keys()


def test_the_conda_recipe_has_our_versions() -> None:
    text = (PACKAGING / "conda/recipe.yaml").read_text()
    version = re.search(r"project\(tacit VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert version
    assert f'version: "{version[1]}"' in text
    assert f"name: {PROJECT['name']}\n" in text
    run = text.partition("  run:\n")[2].partition("  run_constraints:")[0]
    for name, one in NEEDED.items():
        assert f"- {name} {one.removeprefix(name)}\n" in run, one
    for command, target in PROJECT["scripts"].items():
        assert f"- {command} = {target}\n" in text
    variants = (PACKAGING / "conda/variants.yaml").read_text()
    pythons = re.findall(r"^  - (3\.\d+)\.", variants, re.M)
    assert pythons[0] == oldest("python")


def test_the_spack_package_has_our_options_and_versions() -> None:
    text = (PACKAGING / "spack/package.py").read_text()
    tree = ast.parse(text)
    (recipe,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert recipe.name == "TacitSolvers"  # of tacit-solvers
    calls = [node for node in ast.walk(recipe) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    variants = {str(ast.literal_eval(one.args[0])) for one in calls if ast.unparse(one.func) == "variant"}
    assert {f"TACIT_{name.upper()}" for name in variants} <= cmake_options()
    set_by_hand = set(re.findall(r'self\.define\("(TACIT_\w+)"', text))
    assert set_by_hand
    assert set_by_hand <= cmake_options()
    depends = " ".join(str(ast.literal_eval(one.args[0])) for one in calls if ast.unparse(one.func) == "depends_on")
    for name, one in NEEDED.items():
        assert f"py-{name}@{one.removeprefix(name).removeprefix('>=')}:" in depends, one
    assert f"python@{oldest('python')}:" in text
    assert f"cuda@{oldest('nvcc')}:" in depends
    for compiler in ("gcc", "clang"):
        assert f'conflicts("%{compiler}@:{int(oldest(compiler)) - 1}"' in text


def test_the_wheel_is_made_of_pinned_packages() -> None:
    lines = (ROOT / "requirements/wheel.lock").read_text().splitlines()
    names = {line.partition("==")[0].replace("_", "-") for line in lines if not line.startswith("#")}
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {re.split("[>=<; ]", one)[0] for one in required} <= names
    script = (PACKAGING / "wheel.sh").read_text()
    for variable in set(re.findall(r"\b(TACIT_\w+)\b", script)) - {"TACIT_PYTHON"}:  # also those that are only named
        assert variable in cmake_options(), variable
        assert f'env = "{variable}"' in (ROOT / "pyproject.toml").read_text(), variable
