"""All that the flows use: the stored state, and the ports to queues, schedules, runs and threads.

Each port is a file of this room, with an implementation on AWS (`tidewheel.aws`) and an implementation in memory
(`tidewheel.memory`). A suite in `tests/contract` states the promises of each port and runs against both. An
implementation does I/O and decides nothing.
"""

from __future__ import annotations

from tidewheel.clock import Clock
from tidewheel.flows.ports.parallel import Parallel
from tidewheel.flows.ports.queues import Queues
from tidewheel.flows.ports.runs import Runs
from tidewheel.flows.ports.wheel import Wheel
from tidewheel.storage.objects import Objects
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import Table


class Ports(Storage):
    """All that a function uses.

    Args:
        table: the table.
        objects: the objects.
        queues: the subscriptions' queues, the work queue and the queue of refused messages.
        wheel: the schedules.
        runs: starts of functions and jobs.
        parallel: runs calls side by side.
        clock: the time.
        max_skew_ms: maximum difference between SQS's clock and the local clock.
        read_threads: how many reads of objects run side by side, ahead of use. 0: none is ahead.
    """

    def __init__(
        self,
        table: Table,
        objects: Objects,
        *,
        queues: Queues,
        wheel: Wheel,
        runs: Runs,
        parallel: Parallel,
        clock: Clock,
        max_skew_ms: int,
        read_threads: int = 0,
    ) -> None:
        super().__init__(table, objects)
        self.queues = queues
        self.wheel = wheel
        self.runs = runs
        self.parallel = parallel
        self.clock = clock
        self.max_skew_ms = max_skew_ms
        self.read_threads = read_threads
