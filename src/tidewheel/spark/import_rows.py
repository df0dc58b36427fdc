"""Maps the input's columns to a ledger's columns. Gives rejected rows a reason.

The mapping consists of Spark expressions that never throw. These columns are added to a row of the input:

    ledger columns   of SPARK_SCHEMA; message_id is without the count among identical rows
    SLOT             of deliver_at_ms
    BYTES            of payload, key and attributes
    REJECT           an error in the row, at any time: {kind, value}; null if there is none
    TIMING           an error in the row's time as of now: {kind, value}; null if there is none
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from tidewheel.errors import InvalidValue
from tidewheel.jobs.import_options import Columns
from tidewheel.model.duration import MAX_DELAY_MS
from tidewheel.model.message import HEADER_ATTRIBUTE, MAX_ATTRIBUTES, MAX_MESSAGE_BYTES, Encoding
from tidewheel.model.validation import MAX_KEY_CHARACTERS
from tidewheel.spark.import_input import MALFORMED, Input
from tidewheel.spark.import_times import Time, time_of
from tidewheel.spark.ledger_source import SPARK_SCHEMA

SLOT = "_slot"
BYTES = "_bytes"
REJECT = "_reject"
TIMING = "_timing"
_OUR = "_ledger_"
_SHOWN = 100
_WITH_REFUSED = r"[^\t\n\r\x20-\x{d7ff}\x{e000}-\x{fffd}\x{10000}-\x{10ffff}]"
# Nearly every text matches this pattern, which takes three fifths of the time of the search above. Bytes that are not
# UTF-8 are read as U+FFFD, which the pattern rejects.
_SURELY_TAKEN = r"\A[\t\n\r\x20-\x{d7ff}]*\z"
_WITH_CONTROLS = r"[\x00-\x1f\x7f-\x{9f}\x{fffe}\x{ffff}]"
_ATTRIBUTE_NAME = r"\A(?!(?i:aws|amazon)\.)(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)\z"
_ID_DIGITS = 20
# The top random bit stays free, so that the count of identical rows cannot overflow into the time's bits.
_ANY_DIGITS, _LOW_DIGITS = "89abcdef", "01234567"
_TEXTS = MapType(StringType(), StringType())


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Holds the inputs of a row besides its columns.

    Attributes:
        import_id: part of every message's id.
        slot_ms: the topic's slot length.
        now_ms: start of this run.
        earliest_ms: rows due before this time are rejected.
        time_zone: zone of times without a zone.
    """

    import_id: str
    slot_ms: int
    now_ms: int
    earliest_ms: int
    time_zone: str | None = None


def mapped(given: Input, terms: Terms) -> DataFrame:
    """Returns the input's rows with the columns listed in the module's docstring.

    The ledger's columns have other names here.

    Raises:
        InvalidValue: a column has a type that cannot be mapped.
    """
    columns = given.columns
    due = _time(columns.deliver_at, given, terms)
    expiry = None if columns.expires_at is None else _time(columns.expires_at, given, terms)
    payload, encoding = _body(columns.body, given)
    attributes = _attributes(columns.attributes, given)
    ours = {field.name: F.lit(None).cast(field.dataType) for field in SPARK_SCHEMA if field.nullable} | {
        "deliver_at_ms": due.ms,
        "payload": payload,
        "encoding": F.lit(int(encoding)).cast("tinyint"),
        "attributes": attributes,
        "sent_at_ms": F.lit(terms.now_ms).cast("bigint"),
    }
    if columns.key is not None:
        ours["key"] = _key(columns.key, given)
    if expiry is not None:
        ours["expires_at_ms"] = expiry.ms
    frame = given.frame.withColumns({f"{_OUR}{name}": column for name, column in ours.items()})
    problems = [
        _reject("the line is malformed", F.col(MALFORMED), F.col(MALFORMED).isNotNull()),
        *_time_problems(columns.deliver_at, due, _ours("deliver_at_ms")),
        _reject(f"{columns.deliver_at} is missing", F.lit(None), _ours("deliver_at_ms").isNull()),
        *_body_problems(columns.body, encoding),
        *([] if columns.attributes is None else _attribute_problems(columns.attributes)),
        *([] if columns.key is None else _key_problems(columns.key)),
        *_size_problems(columns, encoding),
    ]
    if expiry is not None and columns.expires_at is not None:
        problems += [*_time_problems(columns.expires_at, expiry, _ours("expires_at_ms")), _expired(columns.expires_at)]
    frame = frame.withColumn(REJECT, F.coalesce(*problems))
    return frame.withColumns(
        {
            SLOT: F.expr(f"`{_OUR}deliver_at_ms` div {terms.slot_ms}"),
            BYTES: _payload_bytes() + _attribute_bytes(columns) + F.coalesce(F.octet_length(_ours("key")), F.lit(0)),
            f"{_OUR}message_id": _message_id(terms.import_id),
            TIMING: _timing(columns.deliver_at, terms),
        }
    )


def ledger_rows(frame: DataFrame, *others: Column) -> DataFrame:
    """Selects a ledger's columns, and the given columns, from mapped rows."""
    attributes = _ours("attributes")
    columns = {name: _ours(name) for name in SPARK_SCHEMA.names}
    columns["attributes"] = F.when(F.size(attributes) > 0, attributes)
    return frame.select(*(column.alias(name) for name, column in columns.items()), *others)


def reason(problem: str) -> Column:
    """Returns the text of a problem in REJECT or TIMING."""
    return F.concat_ws(": ", F.col(f"{problem}.kind"), F.col(f"{problem}.value"))


def input_rows(frame: DataFrame, why: Column) -> DataFrame:
    """Returns the input's own columns of mapped rows, and the reason of rejection."""
    added = {SLOT, BYTES, REJECT, TIMING, "reason"}
    kept = [name for name in frame.columns if name not in added and not name.startswith(_OUR)]
    return frame.select(*(F.col(f"`{name}`") for name in kept), why.alias("reason"))


def _ours(name: str) -> Column:
    return F.col(_OUR + name)


def _reject(kind: str | Column, value: Column, condition: Column) -> Column:
    shown = F.substring(value.cast("string"), 1, _SHOWN)
    text = F.lit(kind) if isinstance(kind, str) else kind
    return F.when(condition, F.struct(text.alias("kind"), shown.alias("value")))


def _time_problems(name: str, time: Time, ms: Column) -> list[Column]:
    column, problem = F.col(f"`{name}`"), time.problem(ms)
    return [_reject(F.concat(F.lit(f"{name} "), problem), column, problem.isNotNull())]


def _expired(name: str) -> Column:
    return _reject(
        f"{name} is not after its delivery", F.col(f"`{name}`"), _ours("expires_at_ms") <= _ours("deliver_at_ms")
    )


def _timing(name: str, terms: Terms) -> Column:
    column, ms = F.col(f"`{name}`"), _ours("deliver_at_ms")
    return F.coalesce(
        _reject(
            f"{name} is too soon for an import; send it with the SDK instead", column, ms < F.lit(terms.earliest_ms)
        ),
        _reject(f"{name} is over ten years ahead", column, ms > F.lit(terms.now_ms + MAX_DELAY_MS)),
    )


def _key(name: str, given: Input) -> Column:
    if isinstance(given.types[name], (ArrayType, MapType, StructType, BinaryType, VariantType)):
        raise InvalidValue("--key", name, f"it is a {given.types[name].simpleString()}; give a column of text")
    return F.nullif(F.col(f"`{name}`").cast("string"), F.lit(""))


def _key_problems(name: str) -> list[Column]:
    key = _ours("key")
    refused = (F.char_length(key) > MAX_KEY_CHARACTERS) | key.rlike(_WITH_CONTROLS)
    most = f"{name} is over {MAX_KEY_CHARACTERS} characters, or has control characters"
    return [_reject(most, F.substring(key, 1, MAX_KEY_CHARACTERS), refused)]


def _key_bytes() -> Column:
    """Returns the size of the key as JSON in Tidewheel's attribute."""
    key = _ours("key")
    escaped = F.char_length(key) - F.char_length(F.translate(key, '"\\', ""))
    return F.coalesce(F.octet_length(key) + escaped + 2, F.lit(0))


def _time(name: str, given: Input, terms: Terms) -> Time:
    return time_of(name, given.frame.schema[name].dataType, terms.time_zone)


def _body(name: str, given: Input) -> tuple[Column, Encoding]:
    """Returns the bytes of the body, and their encoding."""
    column, data_type = F.col(f"`{name}`"), given.types[name]
    match data_type:
        case StringType():
            return column.cast("binary"), Encoding.TEXT
        case BinaryType():
            return column, Encoding.BYTES
        case StructType() | ArrayType() | MapType():
            return _json(column, given.frame.schema[name].dataType).cast("binary"), Encoding.JSON
        case _:
            advice = f"it is a {data_type.simpleString()}; give text, binary, a struct, an array or a map"
            raise InvalidValue("--body", name, advice)


def _json(column: Column, data_type: DataType) -> Column:
    if isinstance(data_type, StringType):  # as in the input
        return column
    return F.when(column.isNotNull(), F.to_json(column, {"ignoreNullFields": "false"}))


def _payload_bytes() -> Column:
    return F.coalesce(F.octet_length(_ours("payload")), F.lit(0))


def _body_problems(name: str, encoding: Encoding) -> list[Column]:
    payload = _ours("payload")
    problems = [_reject(f"{name} is missing", F.lit(None), payload.isNull() | (F.octet_length(payload) == 0))]
    if encoding is not Encoding.BYTES:
        text = payload.try_cast("string")
        problems.append(_reject(f"{name} has characters that SQS refuses; give bytes", text, _refused(text)))
    return problems


def _refused(text: Column) -> Column:
    return ~text.rlike(_SURELY_TAKEN) & (~F.is_valid_utf8(text) | text.rlike(_WITH_REFUSED))


def _size_problems(columns: Columns, encoding: Encoding) -> list[Column]:
    bytes_sent = _payload_bytes()
    if encoding is Encoding.BYTES:
        bytes_sent = F.ceil(bytes_sent / 3) * 4
    size = bytes_sent + _attribute_bytes(columns) + _key_bytes()
    return [
        _reject(
            f"{columns.body} is too large: SQS takes {MAX_MESSAGE_BYTES} with attributes and key (bytes as base64)",
            F.concat(size.cast("string"), F.lit(" bytes")),
            size > MAX_MESSAGE_BYTES,
        )
    ]


def _attributes(name: str | None, given: Input) -> Column:
    """Returns a map without nulls. Null if there are no attributes or the text is no JSON object."""
    if name is None:
        return F.lit(None).cast(_TEXTS)
    column, data_type = F.col(f"`{name}`"), given.types[name]
    if isinstance(given.frame.schema[name].dataType, StringType):  # an object in JSON input is text too
        texts = F.from_json(column, _TEXTS.simpleString())
    elif isinstance(data_type, MapType):
        texts = column.cast(_TEXTS)
    elif isinstance(data_type, StructType):
        fields = [F.array(F.struct(F.lit(f.name), column[f.name].cast("string"))) for f in data_type]
        texts = F.when(column.isNotNull(), F.map_from_entries(F.concat(*fields)))
    else:
        advice = f"it is a {data_type.simpleString()}; give a map or struct of texts, or the text of a JSON object"
        raise InvalidValue("--attributes", name, advice)
    return F.map_filter(texts, lambda _, value: value.isNotNull())


def _attribute_problems(name: str) -> list[Column]:
    column, attributes = F.col(f"`{name}`"), _ours("attributes")
    names, values = F.map_keys(attributes), F.map_values(attributes)
    shown = F.to_json(attributes)
    bad_name = F.exists(names, lambda each: ~each.rlike(_ATTRIBUTE_NAME) | (each == HEADER_ATTRIBUTE))
    bad_value = F.exists(values, lambda each: (each == "") | _refused(each))
    repeated = F.size(F.array_distinct(names)) < F.size(names)
    absent = attributes.isNull() & column.isNotNull() & (F.trim(column.cast("string")) != "")
    too_many = F.size(names) > MAX_ATTRIBUTES
    most = f"{name} are over {MAX_ATTRIBUTES}: SQS takes ten and one is Tidewheel's"
    return [
        _reject(f"{name} is not a JSON object", column, absent),
        _reject(most, F.array_join(names, ", "), too_many),
        _reject(f"{name} has a name that SQS refuses", shown, bad_name),
        _reject(f"{name} has a name twice", shown, repeated),
        _reject(f"{name} has a value that is empty or that SQS refuses", shown, bad_value),
    ]


def _attribute_bytes(columns: Columns) -> Column:
    """Returns the size of the attributes as SQS counts (name, value and the type `String`)."""
    if columns.attributes is None:
        return F.lit(0)
    total = F.aggregate(
        F.map_entries(_ours("attributes")),
        F.lit(0),
        lambda sum_, entry: sum_ + F.octet_length(entry.key) + F.octet_length(entry.value) + len("String"),
    )
    return F.coalesce(total, F.lit(0))


def _message_id(import_id: str) -> Column:
    """Returns 48 bits of time and 80 bits of a hash of the other columns.

    A zero byte separates the JSON text, which contains no zero byte, from the payload.
    """
    names = ("expires_at_ms", "encoding", "key", "attributes")
    about = F.to_json(F.struct(F.lit(import_id).alias("import"), *(_ours(name).alias(name) for name in names)))
    digest = F.sha2(F.concat(about.cast("binary"), F.lit(b"\0"), _ours("payload")), 256)
    first = F.translate(F.substring(digest, 1, 1), _ANY_DIGITS, _LOW_DIGITS)
    time = F.lpad(F.lower(F.hex(_ours("deliver_at_ms"))), 12, "0")
    return F.unhex(F.concat(time, first, F.substring(digest, 2, _ID_DIGITS - 1)))
