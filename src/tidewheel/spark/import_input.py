"""Finds and reads the input files of an import."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType, StringType, StructField, StructType

from tidewheel.errors import InvalidValue
from tidewheel.jobs.import_options import FORMATS, Columns, ImportOptions

MALFORMED = "_corrupt_record"
"""The column with the text of an unreadable line."""

_ENDINGS = {"parquet": "parquet", "csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}
_ENDING = re.compile(r"\.(\w+)(?:\.(?:gz|gzip|bz2|zst|zstd|snappy|lz4|deflate))?\Z", re.IGNORECASE)
_ERROR_CLASS = re.compile(r"\A\[\w+(?:\.\w+)*\] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFiles:
    """Describes the files of an input.

    Attributes:
        found: size in bytes and time of the last change, by name.
        format: one of FORMATS.
    """

    found: Mapping[str, tuple[int, str]]
    format: str

    def fingerprint(self, options: ImportOptions) -> str:
        """Returns a hash of everything that decides the messages' contents.

        Files are compared by name, size and time of change. The files of an import with a given name may be moved and
        copied,
        so there only the sizes are compared.
        """
        files = sorted(
            [size] if options.name else [name, size, changed] for name, (size, changed) in self.found.items()
        )
        values = [self.format, asdict(options.columns), options.time_zone, files]
        return blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Holds the input as a data frame of Spark.

    Attributes:
        frame: the input's columns, and MALFORMED.
        types: the types of the columns in the input. JSON values of mapped columns are text in `frame`.
        columns: the mapped columns present in the input.
    """

    frame: DataFrame
    types: Mapping[str, DataType]
    columns: Columns


def find_files(spark: SparkSession, options: ImportOptions) -> InputFiles:
    """Lists the input files.

    Raises:
        InvalidValue: there are no files, or their format is unknown.
    """
    with explained("--input", options.input):
        listed = spark.read.format("binaryFile").load(options.input)
        rows = listed.select("path", "length", F.col("modificationTime").cast("string").alias("changed")).collect()
    if not rows:
        raise InvalidValue("--input", options.input, "there are no files")
    found = {row["path"]: (int(row["length"]), str(row["changed"])) for row in rows}
    return InputFiles(found=found, format=options.format or _format_of(found))


def read_input(spark: SparkSession, files: InputFiles, options: ImportOptions) -> Input:
    """Reads the input's columns.

    Raises:
        InvalidValue: the input cannot be read, or lacks a column.
    """
    with explained("--input", options.input):
        if files.format == "parquet":
            frame = spark.read.parquet(options.input)
            schema = frame.schema
            columns = _present(schema, options)
            frame = frame.withColumn(MALFORMED, F.lit(None).cast("string"))
        elif files.format == "csv":
            # Bodies have line ends; quotes in them are doubled, as RFC 4180 says.
            reader = spark.read.option("header", True).option("multiLine", True).option("escape", '"')
            schema = reader.csv(options.input).schema
            columns = _present(schema, options)
            reader = reader.option("enforceSchema", False).option("columnPruning", False)
            reader = reader.option("columnNameOfCorruptRecord", MALFORMED)
            frame = reader.schema(_with_malformed(schema)).csv(options.input)
        else:
            reader = spark.read.option("columnNameOfCorruptRecord", MALFORMED)
            schema = StructType([field for field in reader.json(options.input).schema if field.name != MALFORMED])
            columns = _present(schema, options)
            frame = reader.schema(_with_malformed(_as_text(schema, columns))).json(options.input)
    return Input(frame=frame, types={field.name: field.dataType for field in schema}, columns=columns)


def _format_of(names: Iterable[str]) -> str:
    found = {_ENDINGS.get(ending[1].lower() if (ending := _ENDING.search(name)) else "") for name in names}
    [format, *others] = found
    if others or format is None:
        shown = sorted(name.rpartition("/")[2] for name in names)[:3]
        raise InvalidValue("--format", None, f"give {', '.join(FORMATS)}: files like {', '.join(shown)} do not say")
    return format


def _with_malformed(schema: StructType) -> StructType:
    return StructType([*schema.fields, StructField(MALFORMED, StringType())])


def _as_text(schema: StructType, columns: Columns) -> StructType:
    """Returns a schema that keeps mapped JSON values as text, except numbers."""

    def keeps(field: StructField) -> bool:
        return field.name not in columns.names or isinstance(field.dataType, NumericType)

    return StructType([f if keeps(f) else StructField(f.name, StringType()) for f in schema])


def _present(schema: StructType, options: ImportOptions) -> Columns:
    there = schema.fieldNames()
    wanted: dict[str, str | None] = asdict(options.columns)
    for option, name in wanted.items():
        if name not in there and option not in options.optional:
            shown = ", ".join(there) or "none"
            raise InvalidValue(f"--{option.replace('_', '-')}", name, f"no such column; there are: {shown}")
    absent: dict[str, Any] = {option: None for option, name in wanted.items() if name not in there}
    return replace(options.columns, **absent)


@contextmanager
def explained(option: str, path: str, advice: str = "") -> Iterator[None]:
    """Turns Spark's errors about files into one line with the path.

    Args:
        option: The argument with the path.
        path: The argument's value.
        advice: Text to append to Spark's message.

    Raises:
        InvalidValue: Spark failed inside the block.
    """
    try:
        yield
    except PySparkException as error:
        reason = _first_line(_ERROR_CLASS.sub("", str(error)))
    except Py4JJavaError as error:
        reason = _root_cause(error)
    else:
        return
    # Spark's own error has a hundred lines, most of them from Java.
    raise InvalidValue(option, path, f"{reason}{advice}") from None


def _root_cause(error: Py4JJavaError) -> str:
    """Returns the first line of the innermost Java error.

    The outer errors say only that a job and a task were aborted.
    """
    cause = error.java_exception
    while (deeper := cause.getCause()) is not None:
        cause = deeper
    return _first_line(str(cause.getMessage() or cause))


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
