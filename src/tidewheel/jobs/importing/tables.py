"""Lists the Parquet files of a Delta or an Iceberg table's current snapshot.

The table's own package reads its metadata. The files are then imported like others. So a table is refused if its files
alone do not say what its rows are: deleted rows beside the files, other column names, partition columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from tidewheel.errors import ExtraMissing, InvalidValue
from tidewheel.jobs.importing.options import ImportOptions
from tidewheel.jobs.location import S3, Location, client, credentials, local_access

_DELTA_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of Delta's protocol that say nothing about the rows of a data file."""
_DELTA_LOG = "_delta_log"
_MOST_SAID = 300
_AS_FILES = "write its rows as Parquet files, and import these"


def table_files(location: Location, options: ImportOptions) -> list[str]:
    """Returns the names of the data files of a table, which are paths or `s3://` URLs.

    Raises:
        InvalidValue: there is no such table, or it cannot be read by its files alone.
        ExtraMissing: the table's package is not installed.
    """
    format_ = options.format
    package, files = TABLES[format_ or ""]
    if find_spec(package) is None:
        raise ExtraMissing(f"an import with --format {format_}", f"no module named {package!r}", "tables")
    try:
        return sorted(name.removeprefix("file://") for name in files(location, options))
    except InvalidValue:
        raise
    except Exception as error:  # these packages have no common base of their errors
        hint = "" if format_ == "delta" else "; give the current *.metadata.json, as the table's catalog names it"
        said = " ".join(str(error).split())[:_MOST_SAID]
        raise _refused(options, f"no {format_} table can be read there: {said}{hint}") from None


def is_delta(location: Location, path: str) -> bool:
    """Returns whether a folder has a Delta table, of which only some files are the current snapshot's."""
    if not path.startswith(S3):
        return (Path(path) / _DELTA_LOG).is_dir()
    s3_bucket, _, prefix = path.removeprefix(S3).partition("/")
    key = f"{prefix.strip('/')}/{_DELTA_LOG}/".removeprefix("/")
    return bool(client(location, "s3").list_objects_v2(Bucket=s3_bucket, Prefix=key, MaxKeys=1).get("KeyCount"))


def _delta_files(location: Location, options: ImportOptions) -> list[str]:
    from deltalake import DeltaTable

    table = DeltaTable(options.input, storage_options=_access(location, options.input, _DELTA_NAMES))
    protocol, metadata = table.protocol(), table.metadata()
    features = sorted(set(protocol.reader_features or ()) - _DELTA_FEATURES)
    if protocol.min_reader_version > 3 or features:
        needs = f"reader version {protocol.min_reader_version}" + (f" with {', '.join(features)}" if features else "")
        raise _refused(options, f"the Delta table needs {needs}; {_AS_FILES}")
    if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
        raise _refused(options, f"the Delta table maps its columns to other names; {_AS_FILES}")
    for name in sorted({*options.columns.names} & {*metadata.partition_columns}):
        raise _refused(options, f"column {name!r} is a partition's and is not in the files; {_AS_FILES}")
    return list(table.file_uris())


def _iceberg_files(location: Location, options: ImportOptions) -> list[str]:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(options.input, _access(location, options.input, _ICEBERG_NAMES))
    found = []
    for task in table.scan().plan_files():
        file = task.file
        if task.delete_files:
            raise _refused(options, f"{file.file_path} has deleted rows in other files; rewrite its data files")
        if file.file_format.value != "PARQUET":
            raise _refused(options, f"{file.file_path} is {file.file_format.value}; {_AS_FILES}")
        found.append(file.file_path)
    return found


def _refused(options: ImportOptions, why: str) -> InvalidValue:
    return InvalidValue("--input", options.input, why)


TABLES: Mapping[str, tuple[str, Callable[[Location, ImportOptions], list[str]]]] = {
    "delta": ("deltalake", _delta_files),
    "iceberg": ("pyiceberg", _iceberg_files),
}
"""Format -> the package that reads it, and the function that lists its files."""
_DELTA_NAMES = ("AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_ICEBERG_NAMES = ("s3.region", "s3.endpoint", "s3.access-key-id", "s3.secret-access-key", "s3.session-token")


def _access(location: Location, url: str, names: Sequence[str]) -> dict[str, str]:
    """Returns the place of S3 as options of a package, which finds the credentials of AWS, but not of a role."""
    if not url.startswith("s3"):
        return {}
    given = zip(names, (location.region, location.endpoint_url, *credentials(location)), strict=True)
    local = local_access(location.endpoint_url) is not None
    http = {"AWS_ALLOW_HTTP": "true"} if names is _DELTA_NAMES and local else {}
    return {name: value for name, value in given if value is not None} | http
