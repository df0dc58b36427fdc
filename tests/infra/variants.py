"""The tested stacks, from the app's own environments and optional features.

Each template is synthesized once, and read from a file until a source of the app changes.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import REPOSITORY
from tests.once import locked

if TYPE_CHECKING:
    from tidewheel.cdk.environment import Environment

Template = dict[str, Any]

READER_ARN = "arn:aws:iam::111122223333:role/reader"
KEY_ARN = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
DEVELOPMENT, PRODUCTION = "development", "production"
MINE, OTHER = "orders", "orders2"
"""Two topics with queues of their own, of which one's name starts with the other's."""
DEDICATED = "two topics with queues of their own"

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "development": (DEVELOPMENT, {}),
    "production": (PRODUCTION, {}),
    "a key of its own": (PRODUCTION, {"own_key": True}),
    "development with a key": (DEVELOPMENT, {"own_key": True}),
    "an existing key": (PRODUCTION, {"encryption_key_arn": KEY_ARN, "access_log_bucket": "team-access-logs"}),
    "topics with queues of their own": (
        PRODUCTION,
        {
            "dedicated_topics": ("orders", "Default"),
            "reserved_concurrency": {"ingest": 360, "dispatch": 50},
            "warm_read_units": 20_000,
            "warm_write_units": 10_000,
            "import_role_arns": (READER_ARN,),
        },
    ),
}
"""Name -> environment of the app, and what differs from it. What is asked of every stack is asked of each of these."""
_OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    DEDICATED: (DEVELOPMENT, {"own_key": True, "dedicated_topics": (MINE, OTHER)}),
    "as many topics as can have queues of their own": (
        DEVELOPMENT,
        {"own_key": True, "dedicated_topics": ("Default", *(f"{n:048d}" for n in range(5)))},
    ),
    "production without Spark": (PRODUCTION, {"spark": False}),
    "another Glue": (DEVELOPMENT, {"glue_version": "6.1"}),
    "smoke": ("smoke", {}),
}
SAMPLED_VARIANTS = [
    "development with a key",
    pytest.param("topics with queues of their own", marks=pytest.mark.long),
    pytest.param("an existing key", marks=pytest.mark.nightly),
]
"""Parameters of tests that take seconds for each variant. Between them these have what the others have."""
_FOLDER = REPOSITORY / "build" / "templates"
_SOURCES = ("app.py", "cdk.json", "functions", "glue_jobs", "infra", "src", "tests/infra/variants.py")
_SUFFIXES = (".py", ".pyi", ".lock")


def environment_of(variant: str) -> Environment:
    """Returns the environment of a variant."""
    from dataclasses import replace

    from infra.environments import environment_named

    base, settings = (VARIANTS | _OTHERS)[variant]
    return replace(environment_named(base), **settings)


def template_of(variant: str) -> Template:
    """Returns the shared template of a variant. Tests must not change the template."""
    return _read(variant)[0]


def local_template_of(variant: str) -> Template:
    """Returns the shared template of a variant for the local runtime. Tests must not change the template."""
    return _read(variant)[1]


@cache
def _read(variant: str) -> tuple[Template, Template]:
    """Reads the template as the CDK writes it, and as the local runtime reads it. Makes them if no file has them."""
    folder = _FOLDER / _hash_of_sources()
    file = folder / f"{variant}.json"
    with locked(_FOLDER / "lock"):
        if not file.exists():
            from infra.local_template import normalized, synthesize

            for other in _FOLDER.iterdir():
                if other.is_dir() and other != folder:
                    shutil.rmtree(other)
            template = synthesize(environment_of(variant))
            folder.mkdir(exist_ok=True)
            file.write_text(json.dumps([template, normalized(template)]), encoding="utf-8")
        template, local = json.loads(file.read_text(encoding="utf-8"))
    return template, local


@cache
def _hash_of_sources() -> str:
    """Returns a hash of all that a template derives from."""
    found = sha256(version("aws-cdk-lib").encode())
    for name in _SOURCES:
        path = REPOSITORY / name
        files = [each for each in path.rglob("*") if each.suffix in _SUFFIXES] if path.is_dir() else [path]
        for file in sorted(files):
            found.update(f"{file}\0{file.stat().st_size}\0".encode())
            found.update(file.read_bytes())
    return found.hexdigest()[:16]
