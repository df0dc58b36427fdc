"""Brings the AWS SDKs of the programs in `examples/languages`, in the versions of its lock files."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tests.independent.fetch import CACHE, ToolMissing, run, unfinished_folder

PROGRAMS = Path(__file__).parents[2] / "examples" / "languages"
SOURCES = {
    "js": ("package.json", "package-lock.json"),
    "java": ("pom.xml",),
    "go": ("go.mod", "go.sum", "send.go"),
    "php": ("composer.json",),
}
"""Language -> the files that decide what is fetched. Go's program is built with its SDK."""
TOOLS = {"js": "npm", "java": "mvn", "go": "go", "php": "composer"}


def folder(language: str) -> Path:
    """Returns the folder with a language's SDK, which `fetch` makes."""
    digest = hashlib.sha256(b"".join((PROGRAMS / name).read_bytes() for name in SOURCES[language]))
    return CACHE / f"sdk-{language}-{digest.hexdigest()[:8]}"


def fetch(language: str) -> None:
    """Fetches a language's SDK, unless the cache has it.

    Raises:
        ToolMissing: the language's tool is not on the PATH, or fetches nothing.
    """
    if folder(language).is_dir():
        return
    if shutil.which(TOOLS[language]) is None:
        raise ToolMissing(f"not on the PATH: {TOOLS[language]}")
    made = unfinished_folder(folder(language))
    for name in SOURCES[language]:
        shutil.copy(PROGRAMS / name, made)
    jars = made / "jars"
    run(
        {
            "js": ["npm", "ci", "--prefix", made, "--no-audit", "--no-fund", "--silent"],
            "java": [
                "mvn",
                "-q",
                "-B",
                "-f",
                made / "pom.xml",
                "dependency:copy-dependencies",
                f"-DoutputDirectory={jars}",
            ],
            "go": ["go", "build", "-C", made, "-o", "send", "."],
            "php": ["composer", "install", "--quiet", "--no-interaction", "--working-dir", made],
        }[language]
    )
    made.rename(folder(language))
