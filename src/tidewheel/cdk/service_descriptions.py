"""botocore's descriptions of AWS, without what no client reads: parsing them is a large part of a cold start.

    botocore/data/
        endpoints.json                           of each partition, the services that are called, by endpoint prefix:
                                                 of those it is their name
        <service>/<version>/service-2.json       without documentation, two thirds of it, and without operations that
                                                 nobody names; with all errors
        <service>/<version>/endpoint-rule-set-1.json

A client parses all three when it is made. The last two come compressed; a bundle is an archive anyway, so they are put
there as plain JSON without white space, and a function need not decompress them again.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any

_PARSED_BY_EVERY_CLIENT = ("service-2", "endpoint-rule-set-1")

BOTOCORES = frozenset({"createsession", "describeendpoints", "headbucket"})
"""Operations that botocore calls of itself, as `names_in` has them: sessions of S3's directory buckets, DynamoDB's
endpoints where a client is told to discover them, the region of an S3 bucket that answers from elsewhere."""

WHOLE = frozenset({"sts", "xray"})
"""Services that other packages call: credentials' and tracing's."""


def names_in(files: Iterable[Path]) -> frozenset[str]:
    """Return all words of source files in lower case and without underscores: `put_item` and `PutItem` are one."""
    words = (re.findall(r"\w+", path.read_text(encoding="utf-8")) for path in files)
    return frozenset(word.replace("_", "").lower() for each in words for word in each)


def thin_descriptions(data: Path, services: Set[str], names: Set[str]) -> None:
    """Make the descriptions in botocore's folder `data` as small as clients of some services allow.

    Args:
        data: `botocore/data`; the folders of other services may be gone.
        services: Names of the services, as botocore's folders are called.
        names: What the code may call, by `names_in`.
    """
    endpoints = data / "endpoints.json"
    _write(endpoints, _only(json.loads(endpoints.read_bytes()), services))
    for name in _PARSED_BY_EVERY_CLIENT:
        for path in sorted(data.glob(f"*/*/{name}.json.gz")):
            description = _undocumented(json.loads(gzip.decompress(path.read_bytes())))
            if name == "service-2" and path.parent.parent.name not in WHOLE:
                description = _named(description, names | BOTOCORES)
            _write(path.with_suffix(""), description)
            path.unlink()


def _only(endpoints: dict[str, Any], services: Set[str]) -> dict[str, Any]:
    """Return the partitions with what they say of some services."""
    for partition in endpoints["partitions"]:
        partition["services"] = {name: each for name, each in partition["services"].items() if name in services}
    return endpoints


def _named(description: dict[str, Any], names: Set[str]) -> dict[str, Any]:
    """Return a description with the operations of some names, and the shapes that they and errors are made of."""
    operations = {name: each for name, each in description["operations"].items() if name.lower() in names}
    shapes = description["shapes"]
    found: set[str] = set()
    waiting = [name for name, shape in shapes.items() if shape.get("exception") or "error" in shape]
    waiting += _shapes_of(list(operations.values()))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _shapes_of(shapes[name])
    kept = {name: shape for name, shape in shapes.items() if name in found}
    return {**description, "operations": operations, "shapes": kept}


def _shapes_of(value: Any) -> list[str]:
    """Return the names under the key `shape`, at any depth; a member of that name is a mapping, and is looked into."""
    match value:
        case dict():
            inner = [found for each in value.values() for found in _shapes_of(each)]
            return [*inner, value["shape"]] if isinstance(value.get("shape"), str) else inner
        case list():
            return [found for each in value for found in _shapes_of(each)]
        case _:
            return []


def _undocumented(value: Any) -> Any:
    """Return JSON without texts under the key `documentation`; a member of that name is a mapping, and stays."""
    match value:
        case dict():
            return {
                key: _undocumented(each)
                for key, each in value.items()
                if key != "documentation" or not isinstance(each, str)
            }
        case list():
            return [_undocumented(each) for each in value]
        case _:
            return value


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
