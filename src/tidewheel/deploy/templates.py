"""Reads the templates that come with the wheel: `<environment>.json`, and `<environment>-no-spark.json`.

A template has parameters: `AssetsBucket`, `Architecture`, `PermissionsBoundary`, a key for each archive, and settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidewheel.errors import DeployRefused, InvalidValue
from tidewheel.shipped import PACKAGE

Template = dict[str, Any]

FOLDER = PACKAGE / "_templates"
ENVIRONMENTS = ("development", "production")
BUCKET, BOUNDARY, ARCHITECTURE, ASSETS_KEY = "AssetsBucket", "PermissionsBoundary", "Architecture", "AssetsKeyArn"
OPTIONS = {
    BUCKET: "The S3 bucket with the archives.",
    BOUNDARY: "A policy that limits the stack's roles.",
    ARCHITECTURE: "The functions' architecture.",
    ASSETS_KEY: "The KMS key of the S3 bucket with the archives.",
}
"""The parameters of every template that are no setting -> what each is. The others end in `Key` or are settings."""


def file_of(environment: str, spark: bool) -> Path:
    """Returns the path of a template."""
    return FOLDER / f"{environment}{'' if spark else '-no-spark'}.json"


def template_for(environment: str, spark: bool) -> Template:
    """Reads a template.

    Raises:
        DeployRefused: This installation has no templates.
    """
    try:
        template: Template = json.loads(file_of(environment, spark).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DeployRefused(
            f"this installation has no {file_of(environment, spark).name}: install a wheel that `make build` made, or "
            "run python -m infra.shipped_templates in the clone"
        ) from None
    return template


def parameter_of(setting: str) -> str:
    """Returns the name of a setting's parameter, such as `LogLevel` for `log_level`."""
    return "".join(part.capitalize() for part in setting.split("_"))


def archive_keys(template: Template) -> list[str]:
    """Returns the names of the parameters that locate archives."""
    return [name for name in template["Parameters"] if name.endswith("Key")]


def settings_given(template: Template, texts: list[str]) -> Mapping[str, str]:
    """Returns parameters for settings, given as `name=value`.

    Raises:
        InvalidValue: A text names no setting of the template.
    """
    fixed = {*OPTIONS, *archive_keys(template)}
    known = {name for name in template["Parameters"] if name not in fixed}
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        if parameter_of(name) not in known or not value:
            listed = ", ".join(sorted(known))
            advice = f"give NAME=VALUE with one of {listed}; other settings need the CDK: tidewheel docs constructs"
            raise InvalidValue("--set", text, advice)
        found[parameter_of(name)] = value
    return found
