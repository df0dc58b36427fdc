"""Reads the template of a local stack, packaged or written by the CDK."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tidewheel.errors import InvalidValue

PACKAGED = Path(__file__).with_name("template.json")

_BOOTSTRAP_VERSION = "BootstrapVersion"
_BOOTSTRAP_RULE = "CheckBootstrapVersion"
"""Rule of the CDK's default synthesizer that checks the bootstrap version. The emulator lacks its SSM parameter."""


def template_of(given: dict[str, Any] | str | Path | None) -> dict[str, Any]:
    """Reads a template, without the parts for the CDK's bootstrapping.

    Args:
        given: the template, the path of its JSON file (such as `cdk.out/<stack>.template.json`), or None for the
            packaged template.

    Raises:
        InvalidValue: there is no such file, or it is not a template in JSON.
    """
    template = given if isinstance(given, dict) else _read(Path(given or PACKAGED))
    left = {
        "Parameters": _without(template, "Parameters", _BOOTSTRAP_VERSION),
        "Rules": _without(template, "Rules", _BOOTSTRAP_RULE),
    }
    rest = {name: value for name, value in template.items() if name not in left}
    return rest | {name: value for name, value in left.items() if value}


def _without(template: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    return {key: value for key, value in template.get(section, {}).items() if key != name}


def _read(path: Path) -> dict[str, Any]:
    advice = "give a template, or the path of one in JSON, such as cdk.out/<stack>.template.json"
    try:
        template = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidValue("template", str(path), f"{error}: {advice}") from error
    if not isinstance(template, dict) or "Resources" not in template:
        raise InvalidValue("template", str(path), f"it has no Resources: {advice}")
    return template
