"""Defines the settings of a topic and of the service, checked on creation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Literal, TypedDict, cast, get_origin

from tidewheel.errors import InvalidValue, NotConfigured, WrongQueue
from tidewheel.model.filter_policy import FilterPolicy
from tidewheel.model.levels import check_levels, parse_levels
from tidewheel.model.message import is_keyed
from tidewheel.model.setting import Declared, Setting, check_names, check_settings, settings_of
from tidewheel.model.untrusted import json_object_of, mapping, text, whole

Claims = Literal["keyed", "all", "none"]
Reader = Literal["tidewheel", "plain"]
InitialPosition = Literal["latest", "earliest"]
FilterDocument = str | Mapping[str, object]
"""A filter policy from callers: JSON text, or the same as a dict."""

SQS_MAX_DELAY_S = 900
VARIABLE_PREFIX = "TIDEWHEEL_"
"""Prefix of the variables that the stack gives to each function."""

SCHEDULER_LATENESS_S = 60
"""EventBridge Scheduler invokes a target within a minute of its time (its documented precision)."""

DAY_MS = 86_400_000
MAX_RETENTION_DAYS = 3650
DEFAULT_RETENTION_DAYS = 7
MAX_SKEW_MS = 60_000
"""The limit on `max_skew_ms`, which delays every message. If clocks differ by more, repair the clocks."""

ROLE_ARN = re.compile(r"arn:[a-z-]+:iam::\d{12}:role/[\w+=,.@/-]+\Z", re.ASCII)

MAX_VISIBILITY_TIMEOUT_S = 43_200
"""SQS's limit."""

MAX_SEND_THREADS = 64
"""A function with the most memory has six CPUs. More threads would only wait for a CPU."""

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
    """Settings of a topic. `update_topic` changes all settings that are not fixed."""

    slot_s: Annotated[int, Setting("Length of a slot of the coarse wheel.", unit="s", fixed=True)] = 300
    lookahead_s: Annotated[
        int,
        Setting(
            "Time between the dispatch of a slot and its start. "
            f"slot_s + lookahead_s + {SCHEDULER_LATENESS_S} must be at most {SQS_MAX_DELAY_S}.",
            unit="s",
            fixed=True,
        ),
    ] = 480
    segment_rows: Annotated[int, Setting("Messages after which a segment ends.")] = 5000
    segment_bytes: Annotated[
        int | None,
        Setting(
            "Encoded size after which a segment ends with its slot.",
            unit="bytes",
            none="64 KiB, or 16 KiB in ledgers that span less than two days",
        ),
    ] = None
    collect_interval_s: Annotated[
        int, Setting("Time between two collections, which delete passed ledgers and write a checkpoint.", unit="s")
    ] = 3600
    inline_rows: Annotated[int, Setting("Maximum number of sends for which dispatch delivers a plan itself.")] = 4000
    part_rows: Annotated[int, Setting("Least messages in a part of a delivery. A larger plan has up to 5,000.")] = 1000
    redrive_s: Annotated[
        int,
        Setting("Age at which the parts of an open delivery are enqueued again.", unit="s", least=2 * MAX_FUNCTION_S),
    ] = 1800
    max_buckets: Annotated[int, Setting("Live ledgers above which small ledgers are merged.")] = 64
    retention_days: Annotated[
        int | None,
        Setting(
            "Time for which ledgers are kept for `history` and `replay` after their messages were due.",
            unit="days",
            least=0,
            most=MAX_RETENTION_DAYS,
            none=f"{DEFAULT_RETENTION_DAYS}, or 0 with `strict_erasure`",
        ),
    ] = None
    max_waiting: Annotated[
        int | None, Setting("Messages in ledgers at which `send` raises `LimitExceeded`.", none="no limit")
    ] = None
    max_send_rate: Annotated[
        int | None,
        Setting(
            "Messages that each client sends at most in a second. Ten seconds' worth may go at once.", none="no limit"
        ),
    ] = None
    strict_erasure: Annotated[
        int,
        Setting(
            "1: ledgers lose the bytes of messages, in all versions, within a day of their collection or cancel. "
            "0: a topic may keep as many dead bytes as live bytes, and 64 KiB more.",
            least=0,
            most=1,
        ),
    ] = 0
    live_view: Annotated[
        int, Setting("1: the sweep writes the topic's live view, for queries. 0: the topic has none.", least=0, most=1)
    ] = 0
    delay_levels: Annotated[
        tuple[int, ...] | None, Setting("Delays of level 1, 2 and so on.", unit="s", none="RocketMQ's 18 levels")
    ] = None
    claims: Annotated[
        Claims,
        Setting(
            "Which messages consumers claim: those with a key, all, or none. These can be stopped until a consumer has "
            "them, others until their slot is sealed.",
            fixed=True,
        ),
    ] = "keyed"

    def __post_init__(self) -> None:
        if self.delay_levels is not None:
            object.__setattr__(self, "delay_levels", check_levels(self.delay_levels))
        check_settings(self)
        if self.slot_s + self.lookahead_s + SCHEDULER_LATENESS_S > SQS_MAX_DELAY_S:
            raise InvalidValue(
                "slot_s, lookahead_s",
                (self.slot_s, self.lookahead_s),
                f"slot_s + lookahead_s + {SCHEDULER_LATENESS_S} must be at most {SQS_MAX_DELAY_S}, SQS's longest delay",
            )

    def claims_id(self, id: bytes) -> bool:
        """Returns whether consumers claim the message with an id of 16 bytes."""
        return self.claims == "all" or (self.claims == "keyed" and is_keyed(id))

    @property
    def slot_ms(self) -> int:
        """The slot length in milliseconds."""
        return self.slot_s * 1000

    @property
    def lookahead_ms(self) -> int:
        """The lookahead in milliseconds."""
        return self.lookahead_s * 1000

    @property
    def retention_ms(self) -> int:
        """How long ledgers are kept after their messages were due, in milliseconds."""
        default = 0 if self.strict_erasure else DEFAULT_RETENTION_DAYS
        return (default if self.retention_days is None else self.retention_days) * DAY_MS

    def record_ttl_s(self, now_ms: int) -> int:
        """Returns the Unix second until which the record of a delivery is kept: a day longer than its ledgers."""
        return (now_ms + self.retention_ms + DAY_MS) // 1000

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
        newer = {k: v for k, v in json.loads(keeping).items() if k not in settings_of(TopicSettings)}
        return json.dumps(newer | {k: v for k, v in asdict(self).items() if v is not None}, sort_keys=True)

    @staticmethod
    @lru_cache(64)  # each read of a topic state has them
    def from_json(text: str) -> TopicSettings:
        """Reads the result of to_json. Ignores names unknown to this version.

        Raises:
            InvalidValue: the text is not a JSON object, or a setting has an invalid value.
        """
        try:
            found = json_object_of(text)
        except ValueError as error:
            raise InvalidValue("settings", text, f"give a JSON object, as to_json writes it ({error})") from None
        return TopicSettings(**{k: v for k, v in found.items() if k in settings_of(TopicSettings)})


class ChangeableTuning(TypedDict, total=False):
    """The fields of both `TuningSettings` and `ChangeableSettings`."""

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
    strict_erasure: int
    live_view: int


class TuningSettings(ChangeableTuning, total=False):
    """The fields of `TopicSettings` for the keyword arguments of the CDK's `add_topic`."""

    claims: Claims


class ChangeableSettings(ChangeableTuning, total=False):
    """The fields of `TopicSettings` for the keyword arguments of `update_topic`."""

    retention_days: int | None


class NewTopicSettings(ChangeableSettings, total=False):
    """All fields of `TopicSettings`, as the keyword arguments of `create_topic`."""

    slot_s: int
    lookahead_s: int
    claims: Claims


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSettings:
    """The stored settings of a subscription.

    Nothing is checked here, since stored values may be damaged. The item, the checkpoint, the template's resource, the
    options of the command line and docs/settings.md have each field under its own name.
    """

    filter_policy: Annotated[
        str | None,
        Setting("Only messages whose attributes match this SNS filter policy, as JSON.", none="all messages"),
    ] = None
    carry: Annotated[
        str | None,
        Setting(
            "`id`: each copy carries its message's id, and a group, for EventBridge Pipes.", choices=("id",), fixed=True
        ),
    ] = None
    reader: Annotated[
        str | None,
        Setting(
            "Who reads the queue. `tidewheel`: consumers of the SDK, which claim messages. `plain`: others, which also "
            "get messages that were cancelled late.",
            none="`plain` with your own queue or `carry`; else `tidewheel` once a consumer of the SDK has received",
            choices=("tidewheel", "plain"),
            fixed=True,
        ),
    ] = None

    def stored(self) -> dict[str, Any]:
        """Returns the stored settings by name, including settings with the value None."""
        return {name: getattr(self, name) for name in STORED_SETTINGS}


STORED_SETTINGS = settings_of(StoredSettings)
"""What `StoredSettings` declares, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSettings(StoredSettings):
    """Settings of a new subscription. `set_filter` changes the filter later."""

    initial_position: Annotated[
        InitialPosition,
        Setting(
            "The first messages. `latest` takes messages sent from now on, and messages that wait in open slots. "
            "`earliest` also takes all ledgers that are still kept."
        ),
    ] = "latest"
    queue_url: Annotated[
        str | None, Setting("An existing standard queue that lets the service send.", none="a new queue")
    ] = None
    visibility_timeout_s: Annotated[
        int,
        Setting(
            "Time for which a received message of a new queue is invisible to others.",
            unit="s",
            least=0,
            most=MAX_VISIBILITY_TIMEOUT_S,
        ),
    ] = 60

    def __post_init__(self) -> None:
        if self.filter_policy is not None:
            object.__setattr__(self, "filter_policy", FilterPolicy.parse(self.filter_policy).to_json())
        check_settings(self)


class ChangeableSubscriptionSettings(TypedDict, total=False):
    """The fields of `StoredSettings`, as keyword arguments."""

    filter_policy: FilterDocument | None
    carry: Literal["id"] | None
    reader: Reader | None


class NewSubscriptionSettings(ChangeableSubscriptionSettings, total=False):
    """All fields of `SubscriptionSettings`, as the keyword arguments of `create_subscription`."""

    initial_position: InitialPosition
    queue_url: str | None
    visibility_timeout_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSettings:
    """Settings of a deployment for its functions."""

    max_skew_ms: Annotated[
        int,
        Setting(
            "Largest difference between two clocks. Added to every delay, so that no message is early.",
            unit="ms",
            least=0,
            most=MAX_SKEW_MS,
        ),
    ] = 100
    send_threads: Annotated[int, Setting("Parallel requests of a function call.", least=1, most=MAX_SEND_THREADS)] = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings(FunctionSettings):
    """The locations of the deployed service's resources, and the settings of the functions.

    Read from the environment or from the SSM parameter.
    """

    stack: Annotated[str, Setting("The stack's name.")]
    table: Annotated[str, Setting("The DynamoDB table.")]
    s3_bucket: Annotated[str, Setting("The S3 bucket of ledgers and plans.")]
    urgent_queue_url: Annotated[str, Setting("The ingest queue for messages that are due soon.")]
    bulk_queue_url: Annotated[str, Setting("The ingest queue for all other messages.")]
    work_queue_url: Annotated[str, Setting("The queue for parts of deliveries, parks and resumed subscriptions.")]
    refused_queue_url: Annotated[str, Setting("The queue for messages that SQS refused permanently, with the reason.")]
    schedule_group: Annotated[str, Setting("The schedule group, named like the stack.")]
    schedule_role_arn: Annotated[str, Setting("The role with which a schedule invokes dispatch.")]
    dispatch_arn: Annotated[str, Setting("The dispatch function.")]
    schedule_dead_letter_arn: Annotated[
        str, Setting("The queue for invocations that EventBridge Scheduler could not make.")
    ]
    compact_function: Annotated[str, Setting("The function for small merges.")]
    merge_job: Annotated[str | None, Setting("The Glue job for large merges.", none="the stack has no Spark jobs")] = (
        None
    )
    topic_queues: Annotated[
        Mapping[str, tuple[str, str]],
        Setting("Topics with their own ingest queues, each with the URLs of its urgent and its bulk queue, as JSON."),
    ] = field(default_factory=dict)
    encryption_key_arn: Annotated[
        str | None,
        Setting("The KMS key that encrypts the S3 bucket, the table and the service's queues.", none="AWS's own keys"),
    ] = None

    def __post_init__(self) -> None:
        check_settings(self)

    def ingest_queues(self, topic: str) -> tuple[str, str]:
        """Returns the URLs of a topic's urgent and bulk ingest queue."""
        return self.topic_queues.get(topic, (self.urgent_queue_url, self.bulk_queue_url))

    def address(self, topic: str | None = None) -> str:
        """Returns the URL of the queue for plain messages. Without a topic: of the topics that share a queue."""
        return self.urgent_queue_url if topic is None else self.ingest_queues(topic)[0]

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
        if not any(_is_same(url, queue_arn) for url in self.ingest_queues(topic)):
            raise WrongQueue(queue_arn, topic)

    def topic_of_queue(self, queue_arn: str) -> str | None:
        """Returns the topic of an ingest queue. None: the queue is shared."""
        own = (topic for topic, urls in self.topic_queues.items() for url in urls if _is_same(url, queue_arn))
        return next(own, None)

    def is_bulk(self, queue_arn: str, topic: str) -> bool:
        """Returns whether an ingest queue is the bulk queue of a topic."""
        return _is_same(self.ingest_queues(topic)[1], queue_arn)

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
        names = {name: prefix + name.upper() if prefix else name for name in settings_of(cls)}
        missing = [
            names[each.name] for each in settings_of(cls).values() if each.required and names[each.name] not in values
        ]
        if missing:
            raise NotConfigured(f"{source} lacks {', '.join(missing)}; deploy the stack again")
        given = {name: values[variable] for name, variable in names.items() if variable in values}
        return cls(**{name: read_setting(settings_of(cls)[name], value) for name, value in given.items()})

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> ServiceSettings:
        """Reads the variables TIDEWHEEL_<FIELD> of a function."""
        return cls.from_mapping(environ, "the environment", VARIABLE_PREFIX)

    @classmethod
    def from_json(cls, text: str, source: str) -> ServiceSettings:
        """Reads the SSM parameter's value. Raises the errors of `from_mapping`."""
        try:
            values = json_object_of(text)
        except ValueError as error:
            raise NotConfigured(f"{source} holds no settings ({error}); deploy the stack again") from None
        return cls.from_mapping(values, source)


def read_setting(declared: Declared, value: Any, name: str = "") -> Any:
    """Reads a setting from text, or from the value in a JSON object.

    Args:
        declared: the setting.
        value: the text, or the value. The text "none" means None if None is a value of the setting.
        name: the name for the error. Empty: the setting's name.

    Raises:
        InvalidValue: the text is not a number, a table of levels or a mapping, as the setting needs.
    """
    if value is None or (value == "none" and declared.optional):
        return None
    if declared.kind is int:
        try:
            return int(value)
        except (TypeError, ValueError, OverflowError):
            raise InvalidValue(name or declared.name, value, "give a whole number") from None
    if declared.kind == tuple[int, ...]:
        return parse_levels(value, name or declared.name)
    return _topic_queues(value) if get_origin(declared.kind) is Mapping else str(value)


def stored_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all stored settings of a subscription, of which some are given, checked.

    Raises:
        InvalidValue: a name or a value is not usable.
    """
    check_names(StoredSettings, given, "a subscription")
    return SubscriptionSettings(**given).stored()


def read_stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the stored settings of a subscription. Ignores names that this release does not know, and None.

    Raises:
        ValueError: a value does not have the setting's type.
    """
    readers: dict[Any, Callable[[Any], Any]] = {int: whole, str: text}
    return {
        name: readers[declared.kind](values[name])
        for name, declared in STORED_SETTINGS.items()
        if values.get(name) is not None
    }


def _topic_queues(value: object) -> dict[str, tuple[str, str]]:
    """Reads the setting `topic_queues`, a mapping or JSON text."""
    try:
        queues: Any = json.loads(value) if isinstance(value, str) else value
        return {str(topic): (str(urgent), str(bulk)) for topic, (urgent, bulk) in queues.items()}
    except (AttributeError, TypeError, ValueError, RecursionError):
        raise InvalidValue("topic_queues", value, "give a mapping of topics to [urgent URL, bulk URL]") from None


TOPIC_DEFAULTS = "topic_defaults"
"""The name in the SSM parameter of settings that new topics have in place of the defaults. Local stacks have some."""


def topic_defaults_in(text: str) -> NewTopicSettings:
    """Reads the SSM parameter's TOPIC_DEFAULTS. Leaves out names unknown to this release."""
    found = mapping(json_object_of(text).get(TOPIC_DEFAULTS, {}))
    known = settings_of(TopicSettings)
    return cast("NewTopicSettings", {name: value for name, value in found.items() if name in known})


def parameter_name(stack: str) -> str:
    """Returns the name of the SSM parameter with a stack's settings."""
    return f"/tidewheel/{stack}/settings"


STACK_TAG, ROLE_TAG = "tidewheel:stack", "tidewheel:role"
SUBSCRIPTION, DEAD_LETTERS, SERVICE = "subscription", "dead letters", "service"
"""Values of ROLE_TAG. The functions may send to queues tagged with their service and SUBSCRIPTION. The stack's own
queues are tagged SERVICE, so that administrators can neither delete them nor tag them anew."""

DELIVERY_ROLES = 3
"""Number of roles that deliver, those of ingest, dispatch and deliver."""


def roles_parameter_name(stack: str) -> str:
    """Returns the name of the SSM parameter with the ARNs of the roles that deliver, separated by commas."""
    return f"/tidewheel/{stack}/delivery-roles"


def _is_same(queue_url: str, queue_arn: str) -> bool:
    """Returns whether a URL and an ARN are of the same queue of the region."""
    return queue_url.split("/")[-2:] == queue_arn.split(":")[-2:]
