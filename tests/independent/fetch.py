"""Brings DynamoDB Local and ElasticMQ with Maven, and versitygw with Go, in pinned versions."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PARTS = Path(__file__).parent / "parts"
CACHE = Path(__file__).parents[2] / "build" / "independent"
VERSITYGW = "v1.8.0"
MIN_JAVA = 17
FETCH_S = 1800
"""A first fetch compiles versitygw and all its dependencies: minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The paths of the servers, two folders of jar files and a program."""

    dynamodb_local: Path
    elasticmq: Path
    versitygw: Path


class ToolMissing(Exception):
    """This machine has no usable Java, Maven or Go, or no access to the registries."""


def check_tools() -> None:
    """Checks for Java, Maven and Go on the PATH.

    Raises:
        ToolMissing: names what is missing.
    """
    if missing := [tool for tool in ("java", "javac", "mvn", "go") if shutil.which(tool) is None]:
        raise ToolMissing(f"not on the PATH: {', '.join(missing)}")
    text = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', text)
    if found is None:
        raise ToolMissing(f"java does not say its version: {text.strip()[:80]!r}")
    if int(found[1]) < MIN_JAVA:
        raise ToolMissing(f"java {found[1]} is on the PATH")


def fetch() -> Parts:
    """Fetches whatever the cache does not hold yet.

    Raises:
        ToolMissing: Maven or Go failed, and its output says why.
    """
    return Parts(dynamodb_local=_jars("dynamodb-local"), elasticmq=_jars("elasticmq"), versitygw=_versitygw())


def _jars(name: str) -> Path:
    pom = PARTS / f"{name}.xml"
    folder = CACHE / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:8]}"
    if not folder.is_dir():
        unfinished = unfinished_folder(folder)
        run(
            [
                "mvn",
                "-q",
                "-B",
                "-Dstyle.color=never",
                "-f",
                pom,
                "dependency:copy-dependencies",
                f"-DoutputDirectory={unfinished}",
            ]
        )
        unfinished.rename(folder)
    return folder


def _versitygw() -> Path:
    folder = CACHE / f"versitygw-{VERSITYGW}"
    if not folder.is_dir():
        unfinished = unfinished_folder(folder)
        package = f"github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}"
        run(["go", "install", package], GOBIN=str(unfinished))
        unfinished.rename(folder)
    return folder / "versitygw"


def unfinished_folder(folder: Path) -> Path:
    """Makes a temporary folder for a fetch, so that an interrupted fetch is repeated."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    return unfinished


def run(command: Sequence[str | Path], **environment: str) -> None:
    """Runs a command that fetches.

    Raises:
        ToolMissing: the command failed, and its output says why.
    """
    print(f"fetching: {' '.join(map(str, command))}", flush=True)
    try:
        subprocess.run(command, env=os.environ | environment, check=True, timeout=FETCH_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise ToolMissing(f"{command[0]} fetches nothing: {error}") from None
