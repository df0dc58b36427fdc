"""A worker beside a web application, in the same process."""

# region recipe
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tidewheel import ReceivedMessage, Worker

worker = Worker()


@worker.handles("orders/closer")
async def close(message: ReceivedMessage) -> None:
    print("closed:", message.json()["order"])  # runs in the application's event loop


@asynccontextmanager
async def lifespan(app: object) -> AsyncIterator[None]:
    """Give it to `FastAPI(lifespan=lifespan)` or `Starlette(lifespan=lifespan)`."""
    async with worker:
        yield


# endregion


def test_the_worker_works_as_long_as_the_application() -> None:
    import asyncio

    from starlette.applications import Starlette

    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    worker.client = tw = stack.client()
    tw.create_topic("orders")
    tw.create_subscription("orders", "closer", reader="tidewheel")
    tw.send("orders", {"order": 17}, key="17")
    stack.advance(seconds=1)

    async def serve() -> None:
        app = Starlette(lifespan=lifespan)
        async with app.router.lifespan_context(app):
            while not worker.counts["orders/closer"].handled:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(serve(), 60))
    stack.advance(hours=1)
    assert stack.receive("orders", "closer") == []
