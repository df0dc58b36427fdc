"""The client for asyncio, and messages that are sent in the background."""

import asyncio
from collections.abc import Iterable

from tidewheel import AsyncTidewheel, BufferedSender, FlushFailed, Message, Receipt, Tidewheel


# region async
async def remind(tw: AsyncTidewheel, customers: list[str]) -> None:
    """Sends two batches side by side."""
    middle = len(customers) // 2
    batches = (customers[:middle], customers[middle:])
    messages = [[Message(body={"customer": each}, delay="3d") for each in batch] for batch in batches]
    await asyncio.gather(*(tw.send_many("orders", batch) for batch in messages))


# endregion


async def work(tw: AsyncTidewheel) -> int:
    """Receives, handles and acknowledges due messages."""
    messages = await tw.receive("orders", "billing", wait_s=20)
    for message in messages:
        print(message.id, message.json())
    await tw.delete("orders", "billing", messages)
    return len(messages)


async def main() -> None:
    """Runs against the stack `tidewheel`."""
    async with AsyncTidewheel() as tw:
        await remind(tw, ["c-1", "c-2"])
        await work(tw)


# region buffered
def load(tw: Tidewheel, orders: Iterable[dict[str, int]]) -> list[Receipt]:
    """Sends many messages from a loop that never waits for SQS. Returns their receipts."""
    try:
        with BufferedSender(tw, max_messages=1000, max_age_s=0.5) as sender:
            futures = [sender.add("orders", order, delay="1d") for order in orders]
    except FlushFailed as error:
        for failed in error.failures:
            print(f"message {failed.index}: {failed.error}")
        raise
    return [future.result() for future in futures]


# endregion

if __name__ == "__main__":
    asyncio.run(main())
