"""Builds the deployed parts once per run, and changed archives."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from infra.local_template import synthesize
from tests.artifact import archive
from tests.artifact.cloud import Parts
from tests.artifact.execution import LAUNCH
from tests.interpreter import functions_machine, python_of


def make_parts(folder: Path) -> Parts:
    """Makes everything from the lock file, the package and the CDK app."""
    python = Path(python_of(functions_machine()))
    releases = [archive.unpack_archive(folder / "functions")]
    runtime, sdk = folder / "runtime", folder / "sdk"
    for each in (runtime, sdk):
        each.mkdir()
        # The processes may open nothing of the repository.
        shutil.copyfile(LAUNCH, each / "launch.py")
    shutil.copyfile(LAUNCH.with_name("sdk_process.py"), sdk / "sdk_process.py")
    archive.install_runtime(runtime)
    archive.install_sdk(sdk)
    # As in Lambda no process writes bytecode. The tests start more than a hundred, and each would compile every module.
    subprocess.run([python, "-I", "-m", "compileall", "-qq", folder], check=True)
    return Parts(python=python, runtime=runtime, sdk=sdk, template=synthesize(), releases=releases)


def two_releases(parts: Parts, folder: Path) -> Parts:
    """Adds a newer release that writes an additional field everywhere."""

    def newer(root: Path) -> None:
        archive.rewrite(root / "newer_release.py", LAUNCH.with_name("newer_release.py").read_text(encoding="utf-8"))
        for handler in root.glob("functions/*/handler.py"):
            text = handler.read_text(encoding="utf-8")
            first = "from __future__ import annotations\n"
            assert first in text
            archive.rewrite(handler, text.replace(first, f"{first}\nimport newer_release\n", 1))

    [older] = parts.releases
    return replace(parts, releases=[older, archive.patched(older, folder, newer)])


def with_handler(parts: Parts, folder: Path, name: str, text: str) -> Parts:
    """Returns the parts with another handler for a function."""

    [release] = parts.releases
    copy = archive.patched(
        release, folder, lambda root: archive.rewrite(root / "functions" / name / "handler.py", text)
    )
    return replace(parts, releases=[copy])


def without_documentation(parts: Parts, folder: Path) -> Parts:
    """Returns the parts with the faulty S3 description of the first archives, so that every S3 call fails."""

    def undocumented(value: object) -> object:
        if isinstance(value, dict):
            kept = {key: each for key, each in value.items() if key != "documentation" or not isinstance(each, str)}
            return {key: undocumented(each) for key, each in kept.items()}
        return [undocumented(each) for each in value] if isinstance(value, list) else value

    def change(root: Path) -> None:
        [packed] = root.glob("botocore/data/s3/*/service-2.json.gz")
        description = undocumented(json.loads(gzip.decompress(packed.read_bytes())))
        archive.rewrite(packed.with_suffix(""), json.dumps(description))
        packed.unlink()

    [release] = parts.releases
    return replace(parts, releases=[archive.patched(release, folder, change)])
