"""Claims received messages that can be cancelled until a consumer has them.

The header of such a message has the field `claim`. One conditional write, before the message is handed out, decides
between its consumer and whoever cancels it. The write counts, so that a message whose handling fails again and again is
buried. SQS's count alone does not tell: a message that waits for DynamoDB's answer is received again, too. So the
queues of such a topic allow more receives, and the consumer buries its other messages by SQS's count.
"""

from __future__ import annotations

from enum import Enum

from botocore.exceptions import ClientError

from tidewheel.aws.tries import AWS_ERRORS, passes
from tidewheel.client import receiving
from tidewheel.client.connection import Connection
from tidewheel.client.core import Core
from tidewheel.client.operations.dead_letters import bury
from tidewheel.client.receiving import MAX_RECEIVES
from tidewheel.errors import ClaimFailed, InvalidValue
from tidewheel.model.message import id_bytes, id_deliver_at_ms
from tidewheel.model.received import ReceivedMessage
from tidewheel.model.tombstone import Holder, claim_ttl_s

SPENT = f"received {MAX_RECEIVES} times, never finished: perhaps the process died"
"""The reason of a dead letter that was handed out too often."""


class Claimed(Enum):
    """The outcome of a claim."""

    MINE = "hand it out"
    CANCELLED = "acknowledge it"
    SPENT = "bury it"


def claim(core: Core, topic: str, subscription: str, message: ReceivedMessage, now_ms: int) -> Claimed:
    """Claims a message for its subscription. A message without the header's field is only counted.

    Raises:
        ClaimFailed: DynamoDB gave no answer, or refuses. The message must not be handed out.
        InvalidValue: the item is not a claim. The message must not be handed out, and no other is concerned.
    """
    connection = core.connection
    if message.claim is None:
        fails = message.receive_count > MAX_RECEIVES and receiving.begin(core, topic, subscription)
        return Claimed.SPENT if fails else Claimed.MINE
    receiving.begin(core, topic, subscription, message.claim)
    holder = Holder(subscription=subscription, generation=message.claim)
    ttl_s = claim_ttl_s(id_deliver_at_ms(id_bytes(message.id)), now_ms, cancelled=False)
    try:
        count = connection.storage.claims.claim(topic, message.id, holder, ttl_s)
    except AWS_ERRORS as error:
        code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
        if code == "ValidationException":  # whoever may cancel may have put anything there
            raise InvalidValue("claim of message", message.id, f"its item cannot be counted up ({error})") from error
        refused = isinstance(error, ClientError) and not passes(error)
        raise ClaimFailed(topic, message.id, str(error), refused=refused) from error
    if count is None:
        return Claimed.CANCELLED
    # A redrive begins SQS's count anew, and what waited for DynamoDB's answer makes it too high.
    return Claimed.SPENT if min(count, message.receive_count) > MAX_RECEIVES else Claimed.MINE


def buried(connection: Connection, queue_url: str, message: ReceivedMessage) -> bool:
    """Puts a message into the dead-letter queue. Returns False if there is none: the message is handed out again."""
    try:
        bury(connection, queue_url, message, SPENT)
    except InvalidValue:
        return False
    return True
