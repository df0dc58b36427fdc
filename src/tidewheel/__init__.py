"""Delayed messages for Amazon SQS: any delay, at S3 prices, with no server.

`__init__.pyi` lists the public names. Each is loaded when first used, so `import tidewheel` loads neither boto3 nor the
client.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pkgutil import get_data
from typing import Any

__version__ = "0.1.0"
"""The version in pyproject.toml. Not every archive with this package has the package's metadata."""


def _homes() -> dict[str, str]:
    """Returns the module of each public name, as the stub file imports it."""
    stub = ast.parse(get_data(__name__, "__init__.pyi") or b"")  # also in a zip archive, from which Glue imports
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {each.name: f"{__name__}.{node.module}" for node in imports for each in node.names}


_HOMES = _homes()
__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604  # all of them are texts


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
