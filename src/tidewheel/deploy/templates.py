"""Reads the templates that come with the wheel: `<environment>.json`, and `<environment>-no-spark.json`.

The parameters of a template are the S3 bucket with the archives, a key for each archive, and settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidewheel.errors import DeployRefused, InvalidValue
from tidewheel.shipped import PACKAGE

Template = dict[str, Any]

FOLDER = PACKAGE / "_templates"
ENVIRONMENTS = ("development", "production")
BUCKET, ARCHITECTURE, BOUNDARY, ASSETS_KEY = "AssetsBucket", "Architecture", "PermissionsBoundary", "AssetsKeyArn"


def file_of(environment: str, spark: bool) -> Path:
    """Returns the path of a template."""
    return FOLDER / f"{environment}{'' if spark else '-no-spark'}.json"


def template_for(environment: str, spark: bool) -> Template:
    """Reads a template.

    Raises:
        DeployRefused: There is no such template.
    """
    file = file_of(environment, spark)
    if environment not in ENVIRONMENTS or not file.exists():
        advice = "give --environment development or production, and install a wheel that `make build` made"
        raise DeployRefused(f"this installation has no {file.name}: {advice}")
    template: Template = json.loads(file.read_text(encoding="utf-8"))
    return template


def parameter_of(setting: str) -> str:
    """Returns the name of a setting's parameter, the setting's name in upper camel case."""
    return "".join(part.capitalize() for part in setting.split("_"))


def archive_keys(template: Template) -> list[str]:
    """Returns the names of the parameters that locate archives."""
    return [name for name in template["Parameters"] if name.endswith("Key")]


def settings_given(template: Template, settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the parameters of settings. An empty value is the template's default.

    Raises:
        InvalidValue: The template has no parameter for a setting, or the parameter does not take the value.
    """
    known = set(template["Parameters"]) - {BUCKET, *archive_keys(template)}
    for name, value in settings.items():
        if parameter_of(name) not in known:
            names = ", ".join(sorted(re.sub(r"(?<!^)(?=[A-Z])", "_", each).lower() for each in known))
            advice = f"name one of {names}; other settings need the CDK: tidewheel docs constructs"
            raise InvalidValue("--set", f"{name}={value}", advice)
        allowed = [str(each) for each in template["Parameters"][parameter_of(name)].get("AllowedValues", ())]
        if value and allowed and value not in allowed:
            raise InvalidValue("--set", f"{name}={value}", f"give one of {', '.join(allowed)}")
    return {parameter_of(name): value or default_of(template, parameter_of(name)) for name, value in settings.items()}


def default_of(template: Template, parameter: str) -> str:
    """Returns the default of a parameter, or an empty text."""
    return str(template["Parameters"][parameter].get("Default", ""))
