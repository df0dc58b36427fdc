"""Environments with the wheel but without the checkout, and the documents' snippets for these environments."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import REPOSITORY

PATIENCE_S = 500
TOOLS = Path(sys.executable).parent
KEPT = ("HOME", "PIP_CERT", "SSL_CERT_FILE", "UV_CACHE_DIR", "UV_DEFAULT_INDEX", "UV_FIND_LINKS", "CI")
"""Variables by which a machine reaches its package index, and the cache of uv."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An environment.

    Attributes:
        programs: its folder `bin`.
    """

    programs: Path

    def python(self, program: str, folder: Path, *arguments: str, **variables: str) -> str:
        """Runs a program's text in a folder. Returns the output."""
        return run([self.programs / "python", "-c", program, *arguments], folder, **variables)

    def pytest(self, folder: Path, **variables: str) -> str:
        """Runs the tests of a folder. Returns pytest's report."""
        return run([self.programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"], folder, **variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environments:
    """Makes environments, each once.

    Attributes:
        wheel: the wheel that they have.
        folder: where they are.
    """

    wheel: Path
    folder: Path
    _made: dict[tuple[str, ...], Installed] = field(default_factory=dict)

    def __call__(self, extras: str = "", *packages: str) -> Installed:
        """Returns an environment with the wheel, its extras and other packages, as pinned in requirements.lock.

        Args:
            extras: such as "[local]".
            packages: other packages; one with a version of its own, such as "boto3==1.40.0" or "boto3>=1.40", is not
                taken as pinned.
        """
        key = (extras, *packages)
        if key not in self._made:
            self._made[key] = self._make(self.folder / str(len(self._made)), extras, packages)
        return self._made[key]

    def _make(self, folder: Path, extras: str, packages: tuple[str, ...]) -> Installed:
        folder.mkdir()
        constraints = folder / "constraints.txt"
        lock = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
        own_version = {package.partition("=")[0].rstrip(">") for package in packages if "=" in package}
        pins = re.findall(r"^[a-z0-9][^\\\n]*==[^\\\n]*", lock, re.MULTILINE)
        constraints.write_text("\n".join(pin for pin in pins if pin.partition("==")[0] not in own_version))
        run([TOOLS / "uv", "--quiet", "venv", "--python", sys.executable, folder / "venv"], folder)
        programs = folder / "venv" / "bin"
        install = [TOOLS / "uv", "--quiet", "pip", "install", "--python", programs / "python"]
        wanted = [f"tidewheel{extras} @ file://{self.wheel}", *packages]
        run([*install, "--constraint", constraints, *wanted], folder)
        return Installed(programs=programs)


def run(command: list[str | Path], folder: Path, *, code: int = 0, **variables: str) -> str:
    """Runs a command in a folder, with few variables of this process. Returns the output.

    Args:
        command: program and arguments.
        folder: where it runs.
        code: the exit code that it must end with; the output is that of stderr, too, unless it is 0.
        variables: its other variables, or another PATH.
    """
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**kept, "PATH": os.environ.get("PATH", os.defpath), **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + (done.stderr if code else "")


def snippets(page: str, example: str = "") -> list[str]:
    """Returns the Python snippets of a documentation page.

    Args:
        page: such as "docs/local.md".
        example: the example that they are quoted from; without it, all.
    """
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    quoted = re.findall(rf"^<!-- {re.escape(example)}\S* -->\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert quoted, f"{page} quotes nothing of {example}"
    return quoted
