"""Defines the settings of a topic and of the service, checked on creation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from dataclasses import field as dataclass_field
from functools import partial
from typing import Any, TypedDict

from tidewheel.errors import InvalidValue, NotConfigured, WrongQueue
from tidewheel.model.levels import check_levels
from tidewheel.model.untrusted import json_object_of

SQS_MAX_DELAY_S = 900
VARIABLE_PREFIX = "TIDEWHEEL_"
"""Prefix of the variables that the stack gives to each function."""

SCHEDULER_LATENESS_S = 60
"""EventBridge Scheduler invokes a target within a minute of its time (its documented precision)."""


MAX_FUNCTION_S = 300
"""The longest time that any function of the service runs."""

MAX_DELIVERY_S = 120
"""The longest time that a delivering function runs. Dispatch may take this long, ingest and deliver half of it."""

LEASE_MS = (MAX_DELIVERY_S + 30) * 1000
"""How long a worker has a part alone. Longer than a delivering function may run.

Shorter than the work queue's visibility timeout (180 s), so that a dead worker's part is free when its message returns.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Settings of a topic. `update_topic` changes all but slot_s and lookahead_s.

    Attributes:
        slot_s: length of a slot of the coarse wheel, in seconds.
        lookahead_s: how long before its start a slot is dispatched, in seconds.
        segment_rows: rows at which a segment is closed.
        segment_bytes: encoded bytes after which a segment is closed at the next slot. None: 64 KiB, or 16 KiB in
            ledgers that span under two days.
        collect_interval_s: how often ledgers that every subscription has passed are deleted, in seconds.
        inline_rows: sends up to which the dispatcher itself delivers a plan.
        part_rows: messages in one part of a larger delivery.
        max_buckets: live ledgers above which small ledgers are merged.
        redrive_s: age at which an open delivery is enqueued again, in seconds. Above the longest life of a function and
            the age of the oldest message of the work queue.
        retention_s: how long ledgers are kept for replay after every subscription has passed them, in seconds.
        max_waiting: number of messages in ledgers at which the client refuses to send. None: no limit.
        max_send_rate: messages a second that one client sends at most. None: no limit.
        delay_levels: seconds of delay level 1, 2, ... None: RocketMQ's eighteen.
    """

    slot_s: int = 300
    lookahead_s: int = 480
    segment_rows: int = 5000
    segment_bytes: int | None = None
    collect_interval_s: int = 3_600
    inline_rows: int = 4000
    part_rows: int = 1000
    redrive_s: int = 1800
    max_buckets: int = 64
    retention_s: int = 0
    max_waiting: int | None = None
    max_send_rate: int | None = None
    delay_levels: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "delay_levels":
                self._check_levels()
                continue
            if value is None and field.default is None:
                continue
            least = 0 if field.name == "retention_s" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidValue(field.name, value, f"give a whole number of at least {least}")
        if self.redrive_s < 2 * MAX_FUNCTION_S:
            raise InvalidValue(
                "redrive_s", self.redrive_s, f"at least {2 * MAX_FUNCTION_S}: older than any worker lives"
            )
        if self.slot_s + self.lookahead_s + SCHEDULER_LATENESS_S > SQS_MAX_DELAY_S:
            raise InvalidValue(
                "slot_s, lookahead_s",
                (self.slot_s, self.lookahead_s),
                f"slot_s + lookahead_s + {SCHEDULER_LATENESS_S} must be at most {SQS_MAX_DELAY_S}, SQS's longest delay",
            )

    def _check_levels(self) -> None:
        levels = self.delay_levels
        if levels is None:
            return
        object.__setattr__(self, "delay_levels", check_levels(levels))

    @property
    def slot_ms(self) -> int:
        """The slot length in milliseconds."""
        return self.slot_s * 1000

    @property
    def lookahead_ms(self) -> int:
        """The lookahead in milliseconds."""
        return self.lookahead_s * 1000

    @property
    def heal_grace_ms(self) -> int:
        """How late a schedule may be before the sweep takes over.

        A minute, or less for short lookaheads.
        """
        return min(SCHEDULER_LATENESS_S * 1000, self.lookahead_ms // 8)

    def to_json(self, keeping: str = "{}") -> str:
        """Returns the settings as a JSON object.

        Args:
            keeping: JSON of the settings that are replaced. Its settings that only a newer release knows are kept.
        """
        newer = {k: v for k, v in json.loads(keeping).items() if k not in _topic_setting_names()}
        return json.dumps(newer | {k: v for k, v in asdict(self).items() if v is not None}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> TopicSettings:
        """Reads the result of to_json. Ignores names unknown to this version.

        Raises:
            InvalidValue: the text is not a JSON object, or a setting has an invalid value.
        """
        try:
            found = json_object_of(text)
        except ValueError as error:
            raise InvalidValue("settings", text, f"give a JSON object, as to_json writes it ({error})") from None
        return cls(**{k: v for k, v in found.items() if k in _topic_setting_names()})


class TuningSettings(TypedDict, total=False):
    """The fields of `TopicSettings` that `add_topic` of the CDK takes under their own names."""

    segment_rows: int
    segment_bytes: int | None
    inline_rows: int
    part_rows: int
    max_buckets: int
    max_waiting: int | None
    max_send_rate: int | None
    delay_levels: Sequence[int] | None
    collect_interval_s: int
    redrive_s: int


class ChangeableSettings(TuningSettings, total=False):
    """The fields of `TopicSettings` that `update_topic` takes as keyword arguments."""

    retention_s: int


class NewTopicSettings(ChangeableSettings, total=False):
    """All fields of `TopicSettings`, as the keyword arguments of `create_topic`."""

    slot_s: int
    lookahead_s: int


def _topic_setting_names() -> set[str]:
    return {field.name for field in fields(TopicSettings)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Where the deployed service's resources are.

    Read from the environment or from the SSM parameter.

    Attributes:
        merge_job: the Glue job for large merges. None if the stack has no Spark jobs.
        max_skew_ms: largest difference between two clocks. Added to every delay, so that no message is early.
        send_threads: parallel SQS requests of one function call.
        topic_queues: topic -> URLs of its own urgent and bulk ingest queue, for the topics that have their own queues.
            Both sources hold this mapping as one JSON text.
        encryption_key_arn: the KMS key that encrypts the S3 bucket, the table and the service's queues. None: AWS's own
            keys encrypt them.
    """

    stack: str
    table: str
    s3_bucket: str
    urgent_queue_url: str
    bulk_queue_url: str
    work_queue_url: str
    refused_queue_url: str
    schedule_group: str
    schedule_role_arn: str
    dispatch_arn: str
    schedule_dead_letter_arn: str
    compact_function: str
    merge_job: str | None = None
    max_skew_ms: int = 100
    send_threads: int = 8
    topic_queues: Mapping[str, tuple[str, str]] = dataclass_field(default_factory=dict)
    encryption_key_arn: str | None = None

    def __post_init__(self) -> None:
        if self.max_skew_ms < 0:
            raise InvalidValue("max_skew_ms", self.max_skew_ms, "at least 0: less would make messages early")
        if self.send_threads < 1:
            raise InvalidValue("send_threads", self.send_threads, "at least 1: none would send nothing")

    def ingest_queues(self, topic: str) -> tuple[str, str]:
        """Returns the URLs of a topic's urgent and bulk ingest queue."""
        return self.topic_queues.get(topic, (self.urgent_queue_url, self.bulk_queue_url))

    @property
    def own_queue_urls(self) -> list[str]:
        """The URLs of all ingest queues and the work queue.

        The service's functions read these queues.
        """
        pairs = [(self.urgent_queue_url, self.bulk_queue_url), *self.topic_queues.values()]
        return [*dict.fromkeys(url for pair in pairs for url in pair), self.work_queue_url]

    def check_ingest_queue(self, queue_arn: str, topic: str) -> None:
        """Raises WrongQueue if a topic's messages must not use this ingest queue.

        Permission to send to a queue must be permission for its topic alone. So a topic's own queues take no other
        topic's messages, and the shared queues take no messages of a topic with its own queues.
        """
        queue = tuple(queue_arn.split(":")[-2:])
        if queue not in [tuple(url.split("/")[-2:]) for url in self.ingest_queues(topic)]:
            raise WrongQueue(queue_arn, topic)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], source: str, prefix: str = "") -> ServiceSettings:
        """Builds the settings from a mapping.

        Args:
            values: the fields' values, by their names.
            source: where the values come from, for the error message.
            prefix: text before each name in the mapping. With a prefix, names are in upper case.

        Raises:
            NotConfigured: a field is missing. The message has the field's name in the source.
            InvalidValue: a field has an invalid value.
        """
        names = {f.name: prefix + f.name.upper() if prefix else f.name for f in fields(cls)}
        missing = [name for field, name in names.items() if name not in values and field not in _OPTIONAL]
        if missing:
            raise NotConfigured(f"{source} lacks {', '.join(missing)}; deploy the stack again or correct it")
        given: dict[str, Any] = {field: values[name] for field, name in names.items() if name in values}
        return cls(**{name: _OPTIONAL.get(name, str)(value) for name, value in given.items()})

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> ServiceSettings:
        """Reads the variables TIDEWHEEL_<FIELD> that the stack gives to each function."""
        return cls.from_mapping(environ, "the environment", VARIABLE_PREFIX)

    @classmethod
    def from_json(cls, text: str, source: str) -> ServiceSettings:
        """Reads the SSM parameter's value. Raises the errors of `from_mapping`."""
        try:
            values = json_object_of(text)
        except ValueError as error:
            raise NotConfigured(f"{source} holds no settings ({error}); deploy the stack again or correct it") from None
        return cls.from_mapping(values, source)


def _topic_queues(value: object) -> dict[str, tuple[str, str]]:
    """Reads the setting `topic_queues`, a mapping or its JSON text."""
    try:
        queues: Any = json.loads(value) if isinstance(value, str) else value
        return {str(topic): (str(urgent), str(bulk)) for topic, (urgent, bulk) in queues.items()}
    except (AttributeError, TypeError, ValueError, RecursionError):
        raise InvalidValue("topic_queues", value, "give a mapping of topics to [urgent URL, bulk URL]") from None


def _number(name: str, value: object) -> int:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]  # text in the environment, a number in JSON
    except (TypeError, ValueError, OverflowError):
        raise InvalidValue(name, value, "give a whole number") from None


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)


_OPTIONAL: dict[str, Callable[[Any], Any]] = {
    "merge_job": _text_or_none,
    "max_skew_ms": partial(_number, "max_skew_ms"),
    "send_threads": partial(_number, "send_threads"),
    "topic_queues": _topic_queues,
    "encryption_key_arn": _text_or_none,
}
"""Settings that may be missing, and how each is read. All other settings are texts."""


def parameter_name(stack: str) -> str:
    """Returns the name of the SSM parameter with a stack's settings."""
    return f"/tidewheel/{stack}/settings"


DELIVERY_ROLES = 3
"""Number of roles that deliver, those of ingest, dispatch and deliver."""


def roles_parameter_name(stack: str) -> str:
    """Returns the name of the SSM parameter with the ARNs of the roles that deliver, separated by commas."""
    return f"/tidewheel/{stack}/delivery-roles"
