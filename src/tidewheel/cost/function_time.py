"""How long the functions run: measured CPU time, and stated waits, as GB-seconds.

The CPU time was measured by `benchmarks/bench_function_time.py` on `MACHINE`, on `MEASURED`, of one thread, without the
emulator, with what a request costs the client. Lambda gives a function of `VCPU_MIB` one vCPU, and one of 1,024 MiB
0.58 of it. A vCPU of Lambda's Graviton2 is taken to be `ARM_FACTOR` slower than the machine's. While a request is under
way the function waits: `LATENCY_MS` are assumptions for requests within a Region, rather long than short. Sends and
reads of segments go on side by side, the rest one after the other. While a thread waits for its send, others compute
theirs: p threads are done with n sends that take c of CPU and w of waiting each after n c + w, or after n (c + w) / p
if that is longer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tidewheel.cost.workload import DAY_S

MEASURED = "2026-11-21"
MACHINE = "AMD EPYC, x86_64, Python 3.11"

ARM_FACTOR = 1.25
"""CPU time on Graviton2, by that on MACHINE. An assumption."""

VCPU_MIB = 1769
"""Memory with which a function has one vCPU. https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html"""

KEPT_S = 360
"""How long Lambda keeps an idle environment. An assumption: AWS promises nothing, and 5 to 7 minutes were observed."""

REPLACED_S = 7200
"""How old an environment gets: Lambda ends each "every few hours". An assumption.
https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html"""

PARALLEL = 8
"""`send_threads` of the stack."""

LATENCY_MS: Mapping[str, float] = {
    "dynamodb.GetItem": 5,
    "dynamodb.Query": 8,
    "dynamodb.PutItem": 8,
    "dynamodb.UpdateItem": 8,
    "dynamodb.DeleteItem": 8,
    "dynamodb.TransactWriteItems": 20,
    "s3.GetObject": 25,
    "s3.PutObject": 40,
    "s3.ListObjectsV2": 40,
    "s3.DeleteObjects": 40,
    "scheduler.CreateSchedule": 50,
    "scheduler.DeleteSchedule": 50,
    "scheduler.ListSchedules": 50,
    "sqs.SendMessageBatch": 15,
}
_SEND = "sqs.SendMessageBatch"
SIDE_BY_SIDE = (_SEND, "s3.GetObject")
NO_WAIT = ("lambda.Invoke", "scheduler.Invoke", "sqs.ReceiveMessage", "sqs.DeleteMessageBatch")
"""What happens outside the function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTime:
    """What a function needs.

    Attributes:
        memory_mib: as the stack configures it.
        call_ms: CPU time of a call, without its messages, on MACHINE.
        message_ms: CPU time of one message of it.
        start_ms: CPU time of its imports.
        sends: whether its messages are sent, so that `message_ms` is what the threads compute that send them.
    """

    memory_mib: int
    call_ms: float
    message_ms: float
    start_ms: float
    sends: bool = False


FUNCTIONS: Mapping[str, FunctionTime] = {
    "ingest": FunctionTime(memory_mib=1024, call_ms=8.1, message_ms=0.0063, start_ms=1370),
    "dispatch": FunctionTime(memory_mib=1024, call_ms=12.3, message_ms=0.142, start_ms=1310, sends=True),
    "deliver": FunctionTime(memory_mib=1024, call_ms=17.7, message_ms=0.142, start_ms=1420, sends=True),
    "sweep": FunctionTime(memory_mib=512, call_ms=38, message_ms=0, start_ms=1180),
    "compact": FunctionTime(memory_mib=3008, call_ms=59, message_ms=0.0073, start_ms=1100),
}


def gb_seconds(function: str, calls: float, messages: float, requests: Mapping[str, float]) -> float:
    """Returns what a day's calls of a function take.

    Args:
        function: its name.
        calls: how many.
        messages: how many they have in all.
        requests: "service.Operation" -> how many they ask in all.

    Raises:
        KeyError: there is no such function, or no latency is known of an operation.
    """
    its = FUNCTIONS[function]
    slower = ARM_FACTOR / min(1.0, its.memory_mib / VCPU_MIB)
    calls_ms = calls * (its.call_ms + cold_share(calls) * its.start_ms) * slower
    messages_ms = messages * its.message_ms * slower
    sending_ms = messages_ms if its.sends else 0.0
    wait_ms = sum(_wait_ms(name, count, calls, sending_ms) for name, count in requests.items() if name not in NO_WAIT)
    return (calls_ms + messages_ms + wait_ms) / 1000 * its.memory_mib / 1024


def cold_share(calls: float) -> float:
    """Returns the share of a day's calls that start an environment, whose imports Lambda bills.

    Calls that come often enough keep one alive until it is replaced; a rarer one finds it by chance.
    """
    if not calls:
        return 0.0
    gap_s = DAY_S / calls
    return min(1.0, gap_s / REPLACED_S) if gap_s <= KEPT_S else math.exp(-KEPT_S / gap_s)


def _wait_ms(operation: str, count: float, calls: float, sending_ms: float) -> float:
    """Returns how long calls wait for an operation while no thread computes.

    Args:
        sending_ms: what the threads compute that send.
    """
    latency_ms = LATENCY_MS[operation]
    if operation not in SIDE_BY_SIDE:
        return count * latency_ms
    waited_ms = count * latency_ms / PARALLEL
    if operation == _SEND:
        waited_ms -= sending_ms * (PARALLEL - 1) / PARALLEL
    return max(min(count, calls) * latency_ms, waited_ms)
