"""Settings of a topic and of the service, checked when they are made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tidewheel.errors import InvalidValue, NotConfigured

SQS_MAX_DELAY_S = 900
SCHEDULER_LATENESS_S = 60
"""EventBridge Scheduler invokes a target within a minute of its time (its documented precision)."""


MAX_FUNCTION_S = 300
"""No function of the service runs longer; a worker's lease lasts as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """What a topic is created with; slot_s and lookahead_s never change afterwards.

    Attributes:
        slot_s: length of a slot of the coarse wheel, in seconds.
        lookahead_s: how long before a slot starts it is dispatched, in seconds.
        segment_rows: rows at which a segment is closed.
        segment_bytes: encoded bytes after which a segment is closed at the next slot; None: 64 KiB, or
            16 KiB in ledgers that span under two days.
        collect_interval_s: how often what every subscription has passed is deleted, in seconds.
        inline_rows: sends up to which a plan is delivered by the dispatcher itself.
        part_rows: messages in one part of a larger delivery.
        max_buckets: live ledgers above which small ones are merged.
        redrive_s: age at which an open delivery is enqueued again, in seconds: older than a function can live and
            than the oldest message of the work queue.
    """

    slot_s: int = 300
    lookahead_s: int = 480
    segment_rows: int = 5000
    segment_bytes: int | None = None
    collect_interval_s: int = 3_600
    inline_rows: int = 2000
    part_rows: int = 1000
    redrive_s: int = 1800
    max_buckets: int = 64

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "segment_bytes" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidValue(field.name, value, "give a whole number of at least 1")
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
        """How late a schedule may be before the sweep does its work: a minute, less for short lookaheads."""
        return min(SCHEDULER_LATENESS_S * 1000, self.lookahead_ms // 8)

    def to_json(self) -> str:
        """Returns the settings as a JSON object."""
        return json.dumps({k: v for k, v in asdict(self).items() if v is not None}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> TopicSettings:
        """Reads to_json's result; names that this version does not know are passed over."""
        known = {field.name for field in fields(cls)}
        return cls(**{k: v for k, v in json.loads(text).items() if k in known})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Where the deployed service's parts are; read from the environment or from the SSM parameter."""

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
    merge_job: str
    max_skew_ms: int = 100
    send_threads: int = 8

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], source: str) -> ServiceSettings:
        """Builds the settings from a mapping of field names.

        Raises:
            NotConfigured: a field is missing; the message names it and `source`.
        """
        missing = [f.name for f in fields(cls) if f.name not in values and f.name not in _TUNING]
        if missing:
            raise NotConfigured(f"{source} lacks {', '.join(missing)}; deploy the stack again or correct it")
        given: dict[str, Any] = {f.name: values[f.name] for f in fields(cls) if f.name in values}
        typed: dict[str, Any] = {name: int(value) if name in _TUNING else str(value) for name, value in given.items()}
        return cls(**typed)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> ServiceSettings:
        """Reads the variables TIDEWHEEL_<FIELD> that the stack gives to each function."""
        prefix = "TIDEWHEEL_"
        values = {k[len(prefix) :].lower(): v for k, v in environ.items() if k.startswith(prefix)}
        return cls.from_mapping(values, "the environment (TIDEWHEEL_*)")

    @classmethod
    def from_json(cls, text: str, source: str) -> ServiceSettings:
        """Reads the SSM parameter's value."""
        return cls.from_mapping(json.loads(text), source)


_TUNING = frozenset({"max_skew_ms", "send_threads"})


def parameter_name(stack: str) -> str:
    """Returns the name of the SSM parameter with a stack's settings."""
    return f"/tidewheel/{stack}/settings"
