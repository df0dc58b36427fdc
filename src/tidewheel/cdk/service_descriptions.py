"""botocore's descriptions of AWS, without what no client reads: parsing them is a large part of a cold start.

    botocore/data/
        endpoints.json                           of each partition, the services that are called, by endpoint prefix:
                                                 of those it is their name
        <service>/<version>/service-2.json       without documentation, two thirds of it
        <service>/<version>/endpoint-rule-set-1.json

A client parses all three when it is made. The last two come compressed; a bundle is an archive anyway, so they are put
there as plain JSON without white space, and a function need not decompress them again.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Set
from pathlib import Path
from typing import Any

_PARSED_BY_EVERY_CLIENT = ("service-2", "endpoint-rule-set-1")


def thin_descriptions(data: Path, services: Set[str]) -> None:
    """Make the descriptions in botocore's folder `data` as small as clients of some services allow.

    Args:
        data: `botocore/data`; the folders of other services may be gone.
        services: Names of the services, as botocore's folders are called.
    """
    endpoints = data / "endpoints.json"
    _write(endpoints, _only(json.loads(endpoints.read_bytes()), services))
    for name in _PARSED_BY_EVERY_CLIENT:
        for path in sorted(data.glob(f"*/*/{name}.json.gz")):
            _write(path.with_suffix(""), _undocumented(json.loads(gzip.decompress(path.read_bytes()))))
            path.unlink()


def _only(endpoints: dict[str, Any], services: Set[str]) -> dict[str, Any]:
    """Return the partitions with what they say of some services."""
    for partition in endpoints["partitions"]:
        partition["services"] = {name: each for name, each in partition["services"].items() if name in services}
    return endpoints


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
