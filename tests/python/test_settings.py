"""Options from TACIT_OPTIONS and TOML files, and completion of words by shells."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import LONG, clean_environment, poisson, tacit


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a matrix; its own folder of settings is empty."""
    poisson(tmp_path / "a.mtx", 4)
    (tmp_path / "home").mkdir()
    return tmp_path


def options(folder: Path, *words: object, **environment: str) -> dict[str, tuple[object, str]]:
    """Value and place of each option of tacit solve."""
    home = {"XDG_CONFIG_HOME": str(folder / "home")} | environment
    done = tacit("solve", "a.mtx", "--show-options", "--json", *words, cwd=folder, **home)
    return {name: (s["value"], s["source"]) for name, s in json.loads(done.stdout)["options"].items()}


def test_which_place_counts(folder: Path) -> None:
    """Each place is stronger than those after it: command line, --config, TACIT_OPTIONS, folder, user."""
    (folder / "home/tacit").mkdir()
    user = folder / "home/tacit/tacit.toml"
    user.write_text('threads = 1\n[solve]\nmethod = "minres"\nrtol = 1e-1\natol = 1e-1\nrestart = 1\n')
    (folder / "tacit.toml").write_text('[solve]\nmethod = "gmres"\nrtol = 1e-2\natol = 1e-2\n')
    (folder / "other.toml").write_text("[solve]\nrtol = 1e-4\n")
    found = options(folder, TACIT_OPTIONS="--rtol 1e-3 --atol=1e-3")
    assert found["rtol"] == (1e-3, "TACIT_OPTIONS")
    assert found["atol"] == (1e-3, "TACIT_OPTIONS")
    assert found["method"] == ("gmres", "./tacit.toml")
    assert found["restart"] == (1, str(user))
    assert found["threads"] == (1, str(user))
    assert found["rhs"] == ("ones", "default")
    found = options(folder, "--config", "other.toml", "--atol", "5", TACIT_OPTIONS="--rtol 1e-3 --atol=1e-3")
    assert found["rtol"] == (1e-4, "--config other.toml")
    assert found["atol"] == (5.0, "command line")


def test_flags_and_preconditioners(folder: Path) -> None:
    text = '[solve]\nfallbacks = false\nexplain = true\nmonitor = true\nb = "random:3"\n'
    (folder / "tacit.toml").write_text(text + 'precond = {name = "polynomial", degree = 3}\n')
    found = options(folder)
    assert found["fallbacks"][0] is False
    assert found["explain"][0] is True
    assert found["monitor"][0] is True
    assert found["rhs"][0] == "random:3"
    assert found["precond"][0] == {"name": "polynomial", "degree": 3}
    (folder / "tacit.toml").write_text("[solve]\nno-fallbacks = true\nexplain = false\nmonitor = false\n")
    found = options(folder)
    assert [found[name][0] for name in ("fallbacks", "explain", "monitor")] == [False, False, False]
    (folder / "tacit.toml").write_text("[solve]\nfallbacks = true\n")
    assert options(folder)["fallbacks"][0] is None  # as it is without the option
    assert options(folder, TACIT_OPTIONS="--no-fallbacks --no-explain")["explain"][0] is False


def test_a_default_that_is_given_counts(folder: Path) -> None:
    """What the command line says is stronger, also where it is what holds without any option."""
    (folder / "tacit.toml").write_text('partition = "graph"\nrhs = "random:1"\n')
    assert options(folder)["partition"][0] == "graph"
    found = options(folder, "--partition", "rows", "--rhs", "ones")
    assert found["partition"] == ("rows", "command line")
    assert found["rhs"] == ("ones", "command line")


def test_an_option_that_may_be_said_again(folder: Path) -> None:
    def at(*words: object) -> object:
        done = tacit(
            "bem", "sphere:2", "--show-options", "--json", *words, cwd=folder, XDG_CONFIG_HOME=str(folder / "home")
        )
        return json.loads(done.stdout)["options"]["at"]["value"]

    assert at() == []
    assert at("--at", "0,0,1", "--at", "0,0,2") == [[0, 0, 1], [0, 0, 2]]
    (folder / "tacit.toml").write_text('[bem]\nat = [[0, 0, 3], "0,0,4"]\n')
    assert at() == [[0, 0, 3], [0, 0, 4]]
    assert at("--at", "0,0,1") == [[0, 0, 1]]


def test_a_solve_says_what_it_took(folder: Path) -> None:
    (folder / "tacit.toml").write_text('[solve]\nmethod = "gmres"\n[multigrid]\ncells = 3\nx = 3\n')
    done = tacit("solve", "a.mtx", "--json", cwd=folder, TACIT_OPTIONS="--rtol 1e-3 --n 3")
    facts = json.loads(done.stdout)
    assert facts["method"] == "gmres"
    assert facts["rtol"] == 1e-3
    assert facts["settings"]["method"] == {"value": "gmres", "source": "./tacit.toml"}
    assert set(facts["settings"]) == {"method", "rtol"}


@pytest.mark.parametrize(
    ("file", "words", "said"),
    [
        ("rtol = 'a'", "", "./tacit.toml: rtol: expected a number >= 0"),
        ("[solve]\nrtl = 1", "", 'tacit solve has no option "rtl"; did you mean "rtol"?'),
        ("[slove]\nrtol = 1", "", 'no command and no option "slove"; did you mean "solve"?'),
        ("[solve]\nmonitor = 3", "", "monitor is 3; true or false is needed"),
        ("[solve]\nmethod = true", "", 'unknown method "true"'),
        ("rtol = ", "", "tacit.toml: "),
        ("", "--rtl 3", 'TACIT_OPTIONS: tacit solve has no option "--rtl"; did you mean "rtol"?'),
        ("", "rtol 3", '"rtol" is no option'),
        ("", "--rtol 'a", "TACIT_OPTIONS: No closing quotation"),
    ],
)
def test_wrong(file: str, words: str, said: str, folder: Path) -> None:
    (folder / "tacit.toml").write_text(file)
    done = tacit("solve", "a.mtx", cwd=folder, code=2, TACIT_OPTIONS=words, XDG_CONFIG_HOME=str(folder / "home"))
    assert said in done.stderr


def test_no_such_file(folder: Path) -> None:
    assert "none.toml" in tacit("solve", "a.mtx", "--config", "none.toml", cwd=folder, code=4).stderr


# --- completion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed(shell: str) -> None:
    pytest.importorskip("argcomplete")
    assert "tacit" in tacit("completion", shell).stdout


def completed(line: str, folder: Path) -> list[str]:
    """What a shell is told for this line, by the protocol of argcomplete."""
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    answers = folder / "answers"
    code = (
        "import os, runpy, sys; os.dup2(os.open('answers', os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 8);"
        " sys.argv = ['tacit']; runpy.run_module('tacit', run_name='__main__')"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder, env=clean_environment(**asked, COMP_TYPE="9"), timeout=LONG, check=False,
    )  # fmt: skip
    return [word.strip() for word in answers.read_text().split("\n")]


def test_what_is_completed(folder: Path) -> None:
    pytest.importorskip("argcomplete")
    assert completed("tacit sol", folder) == ["solve"]
    assert "--rtol" in completed("tacit solve --rt", folder)
    assert set(completed("tacit solve --method ca", folder)) == {"ca-cg", "ca-bicgstab", "ca-gmres"}
    assert "a.mtx" in completed("tacit solve a.", folder)
    assert completed("tacit solve --rtol a", folder) == [""]
    assert "amg" in completed("tacit solve --precond a", folder)


def test_bash_completes_by_the_printed_script(folder: Path) -> None:
    pytest.importorskip("argcomplete")
    script = folder / "complete.sh"
    script.write_text(tacit("completion", "bash").stdout)
    command = folder / "tacit"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tacit "$@"\n')
    command.chmod(0o755)
    ask = (
        "source ./complete.sh; COMP_WORDS=(tacit solve --method ca-g); COMP_CWORD=3;"
        " COMP_LINE='tacit solve --method ca-g'; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9;"
        " _python_argcomplete tacit; echo ${COMPREPLY[@]}"
    )
    environment = clean_environment()
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", ask], cwd=folder, env=environment, text=True, capture_output=True, timeout=LONG
    )
    assert done.stdout.split() == ["ca-gmres"], done.stderr
