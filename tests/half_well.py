"""Wraps the in-memory ports with partial failures of AWS, where some calls are refused for a given time.

faults = HalfWell()
stack = MemoryTidewheel(wrap=faults)
faults.refuse("wheel.schedule", minutes=30)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tidewheel.flows.ports import Ports
from tidewheel.memory import MemoryService
from tidewheel.model.checked_clock import CheckedClock

_VALUES = frozenset({"dynamodb", "max_skew_ms", "parallel", "read_threads"})
"""What is not a port with calls."""


MAX_SIGNATURE_SKEW_MS = 300_000
"""AWS refuses a request that was signed at another time."""


class Refused(Exception):
    """AWS refused the call, or did not answer in time."""


def always(*_: object, **__: object) -> bool:
    """Applies to every call."""
    return True


@dataclass(slots=True, kw_only=True)
class Fault:
    """A fault of some calls.

    Attributes:
        calls: `<port>.<method>`, with shell wildcards.
        first_ms, end_ms: by the true clock.
        applies: told the call's arguments.
        instead: what happens; it may raise, or answer in the call's place.
        after: whether the call takes effect before the fault.
        hits: how often it happened.
    """

    calls: str
    first_ms: int
    end_ms: float
    applies: Callable[..., bool] = always
    instead: Callable[..., Any] | None = None
    after: bool = False
    hits: int = 0


class HostClock:
    """The clock of the machine with the current invocation."""

    def __init__(self, half_well: HalfWell) -> None:
        self._half_well = half_well

    def now_ms(self) -> int:
        """Returns the machine's time."""
        return self._half_well.true_ms() + self._half_well.skew_ms


class Hosts(CheckedClock):
    """The functions' checked clock, with another machine for each invocation."""

    def __init__(self, half_well: HalfWell) -> None:
        self._half_well = half_well
        super().__init__(HostClock(half_well))

    def forget(self) -> None:
        """Begins an invocation."""
        super().forget()
        self._half_well.next_host()


@dataclass(slots=True)
class HalfWell:
    """Makes calls of a service's ports fail. Pass as `wrap` of a `MemoryTidewheel`.

    Attributes:
        calls: `<port>.<method>` -> how often a function called it.
        faults: all faults so far.
        skew_ms: how far the clock of the current invocation's machine is ahead.
        signed: whether AWS refuses what was signed more than five minutes before or after its time.
        calls_of_wrong_hosts: `<port>.<method>` -> how often an invocation on a machine with a wrong clock called it.
        doubted: invocations on a machine whose clock was doubted.
    """

    calls: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    service: MemoryService | None = None
    calls_of_wrong_hosts: Counter[str] = field(default_factory=Counter)
    skew_ms: int = 0
    signed: bool = True
    clock: Hosts | None = None
    _skews_ms: tuple[int, ...] = (0,)
    _invocations: int = 0

    def __call__(self, service: MemoryService) -> Ports:
        """Returns the service's ports behind this object."""
        self.service = service
        ports: Any = _Ports(self, service)
        return ports  # type: ignore[no-any-return]

    def port(self, name: str, port: Any) -> Any:
        """Returns another port behind this object."""
        return _Port(self, name, port)

    def skew(self, *skews_ms: int) -> None:
        """Lets invocations take turns on machines whose clocks are so far ahead."""
        self._skews_ms = skews_ms

    def true_ms(self) -> int:
        """Returns the true time."""
        assert self.service is not None
        return self.service.clock.now_ms()

    def next_host(self) -> None:
        """Begins an invocation on the next machine."""
        self._invocations += 1
        self.skew_ms = self._skews_ms[self._invocations % len(self._skews_ms)]

    def refuse(
        self,
        calls: str,
        *,
        minutes: float | None = None,
        applies: Callable[..., bool] = always,
        instead: Callable[..., Any] | None = None,
        after: bool = False,
    ) -> Fault:
        """Makes calls fail from now on, for some minutes or until `heal`.

        Args:
            calls: `<port>.<method>`, with shell wildcards.
            minutes: how long. None: until `heal`.
            applies: told the arguments of a call.
            instead: answers in the call's place, told its arguments. None: `Refused` is raised.
            after: whether the call takes effect all the same.
        """
        assert self.service is not None, "a fault begins after its MemoryTidewheel was made"
        now_ms = self.service.clock.now_ms()
        end_ms = float("inf") if minutes is None else now_ms + minutes * 60_000
        fault = Fault(calls=calls, first_ms=now_ms, end_ms=end_ms, applies=applies, instead=instead, after=after)
        self.faults.append(fault)
        return fault

    def heal(self) -> None:
        """Ends all faults."""
        self.faults.clear()

    def call(self, name: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Makes a call, and reports the time of AWS's answer to the clock."""
        assert self.clock is not None
        before_ms = self.clock.local.now_ms()
        try:
            return self._answer(name, method, args, kwargs)
        finally:
            self.clock.observe(before_ms, self.clock.local.now_ms(), self.true_ms() // 1000 * 1000)

    def _answer(self, name: str, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Makes a call, unless a fault applies."""
        self.calls[name] += 1
        if self.skew_ms:
            self.calls_of_wrong_hosts[name] += 1
        if self.signed and abs(self.skew_ms) > MAX_SIGNATURE_SKEW_MS:
            raise Refused("the signature has expired, or is not yet valid")
        assert self.service is not None
        now_ms = self.service.clock.now_ms()
        for fault in self.faults:
            if not (fault.first_ms <= now_ms < fault.end_ms and fnmatchcase(name, fault.calls)):
                continue
            if fault.applies(*args, **kwargs):
                fault.hits += 1
                if fault.after:
                    method(*args, **kwargs)
                if fault.instead is None:
                    raise Refused(f"{name} is refused")
                return fault.instead(*args, **kwargs)
        return method(*args, **kwargs)


class _Ports:
    """Ports whose calls go through a `HalfWell`."""

    def __init__(self, half_well: HalfWell, service: MemoryService) -> None:
        half_well.clock = self.clock = Hosts(half_well)
        topic_states = _Port(half_well, "topic_states", service.topic_states)
        half_well.clock.ask = lambda: topic_states.read("")
        for name, port in vars(service).items():
            if name != "clock":
                setattr(self, name, port if name in _VALUES else _Port(half_well, name, port))


class _Port:
    """A port with faults."""

    def __init__(self, half_well: HalfWell, name: str, port: Any) -> None:
        self._half_well = half_well
        self._name = name
        self._port = port

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if not callable(method):
            return method
        return lambda *args, **kwargs: self._half_well.call(f"{self._name}.{name}", method, args, kwargs)
