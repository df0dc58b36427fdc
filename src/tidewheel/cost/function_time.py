"""Calculates function time in GB-seconds from measured CPU time and assumed waits.

The CPU time was measured by `benchmarks/bench_function_time.py` on `MACHINE`, on `MEASURED`, for a single thread,
without the emulator, with the client's share of each request. Lambda gives a function of `VCPU_MIB` a full vCPU, and a
function of 1,024 MiB 0.58 of a vCPU. A vCPU of Lambda's Graviton2 is assumed to be slower than the machine's by
`ARM_FACTOR`.

The function waits during each request. `LATENCY_MS` are assumptions for requests within a Region, rather long than
short. Sends and reads of segments run in parallel, other requests in sequence. While a thread waits for its send, other
threads compute. So p threads finish n sends, each with c of CPU and w of waiting, after n c + w, or after
n (c + w) / p if that is longer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tidewheel.cost.workload import DAY_S

MEASURED = "2026-11-21"
MACHINE = "AMD EPYC, x86_64, Python 3.11"

ARM_FACTOR = 1.25
"""CPU time on Graviton2, divided by the time on MACHINE. An assumption."""

VCPU_MIB = 1769
"""Memory of a function with a full vCPU. https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html"""

KEPT_S = 360
"""Time for which Lambda keeps an idle environment. An assumption. AWS promises nothing. Observed: 5 to 7 minutes."""

REPLACED_S = 7200
"""Lifetime of an environment. An assumption. AWS says "every few hours".
https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html
"""

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
    "sqs.SendMessage": 15,
    "sqs.SendMessageBatch": 15,
}
_SEND = "sqs.SendMessageBatch"
SIDE_BY_SIDE = (_SEND, "s3.GetObject")
NO_WAIT = ("lambda.Invoke", "scheduler.Invoke", "sqs.ReceiveMessage", "sqs.DeleteMessageBatch")
"""Operations outside the function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTime:
    """Measured times and memory of a function.

    Attributes:
        memory_mib: the stack's setting.
        call_ms: CPU time of a call, without its messages, on MACHINE.
        message_ms: CPU time of each message of a call.
        start_ms: CPU time of the imports.
        sends: whether the messages are sent. Then `message_ms` is CPU time of the sending threads.
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

PATHS: Mapping[str, FunctionTime] = {
    **FUNCTIONS,
    "forward": replace(FUNCTIONS["ingest"], call_ms=3.7, message_ms=0.099),
}
"""The functions, and calls of ingest that only forward plain messages."""


def gb_seconds(function: str, calls: float, messages: float, requests: Mapping[str, float]) -> float:
    """Returns the GB-seconds of a day's calls of a function.

    Args:
        function: its name in PATHS.
        calls: number of calls.
        messages: messages of all calls together.
        requests: "service.Operation" -> requests of all calls together.

    Raises:
        KeyError: there is no such function, or an operation's latency is unknown.
    """
    its = PATHS[function]
    slower = ARM_FACTOR / min(1.0, its.memory_mib / VCPU_MIB)
    calls_ms = calls * (its.call_ms + cold_share(calls) * its.start_ms) * slower
    messages_ms = messages * its.message_ms * slower
    sending_ms = messages_ms if its.sends else 0.0
    wait_ms = sum(_wait_ms(name, count, calls, sending_ms) for name, count in requests.items() if name not in NO_WAIT)
    return (calls_ms + messages_ms + wait_ms) / 1000 * its.memory_mib / 1024


def cold_share(calls: float) -> float:
    """Returns the share of a day's calls that start an environment, whose imports Lambda bills.

    Frequent calls keep an environment alive until its replacement. A rare call finds an environment by chance.
    """
    if not calls:
        return 0.0
    gap_s = DAY_S / calls
    return min(1.0, gap_s / REPLACED_S) if gap_s <= KEPT_S else math.exp(-KEPT_S / gap_s)


def _wait_ms(operation: str, count: float, calls: float, sending_ms: float) -> float:
    """Returns how long calls wait for an operation while no thread computes.

    Args:
        sending_ms: CPU time of the sending threads.
    """
    latency_ms = LATENCY_MS[operation]
    if operation not in SIDE_BY_SIDE:
        return count * latency_ms
    waited_ms = count * latency_ms / PARALLEL
    if operation == _SEND:
        waited_ms -= sending_ms * (PARALLEL - 1) / PARALLEL
    return max(min(count, calls) * latency_ms, waited_ms)
