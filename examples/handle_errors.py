"""The errors of a call, and their handling."""

from tidewheel import InvalidValue, Message, SendFailed, Tidewheel, UnknownTopic

# region errors


def send_all(tw: Tidewheel, messages: list[Message]) -> list[Message]:
    """Sends messages. Returns the messages that are worth another attempt."""
    try:
        tw.send_many("orders", messages)
    except UnknownTopic:
        tw.create_topic("orders")
        return messages
    except SendFailed as error:
        for index, reason in error.failures.items():
            print(f"message {index}: {reason}")
        return [messages[i] for i, reason in error.failures.items() if not isinstance(reason, InvalidValue)]
    return []


# endregion
