"""A watched port whose signature is not the port's own would look like a service that fails."""

import inspect

from benchmarks.soak.stack import SoakStack
from benchmarks.soak.watch import Forwarding
from tidewheel.memory import MemoryService

PORTS = ("buckets", "checks", "deliveries", "merges", "objects", "parks", "plans", "queues")


def test_watched_methods_take_the_arguments_of_the_ports() -> None:
    seen: list[MemoryService] = []

    def keep(service: MemoryService) -> MemoryService:
        seen.append(service)
        return service

    with SoakStack(tamper=keep) as stack:
        for name in PORTS:
            watched, real = getattr(seen[0], name), getattr(stack.service, name)
            assert isinstance(watched, Forwarding)
            for method, function in vars(type(watched)).items():
                if not method.startswith("_"):
                    own = inspect.signature(function).parameters.values()
                    ports = inspect.signature(getattr(type(real), method)).parameters.values()
                    assert [(p.name, p.kind) for p in own] == [(p.name, p.kind) for p in ports], (name, method)
