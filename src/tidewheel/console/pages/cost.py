"""The cost of the service, by counted requests of a local service, and by the calculator."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from tidewheel.cost.bill import ENVIRONMENTS, Bill, bill
from tidewheel.cost.rivals import rivals
from tidewheel.cost.workload import Spread, Workload
from tidewheel.errors import InvalidValue
from tidewheel.model.duration import delay_ms
from tidewheel.model.prices import LISTED, REGION, dollars

if TYPE_CHECKING:
    from tidewheel.console.app import Console

_FIELDS = {"per_day": "100000", "delay_mean": "7d", "size": "500", "batch": "1"}


def screen(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Counts the service's requests, and calculates a bill for the numbers in the address."""
    fields = _FIELDS | ({"per_day": f"{console.per_day}"} if console.per_day else {})
    typed = {name: request.query_params.get(name, default) for name, default in fields.items()}
    errors: dict[str, str] = {}
    found: Bill | None = None
    try:
        found = bill(_workload(typed), ENVIRONMENTS["production"])
    except InvalidValue as error:
        errors[error.field if error.field in typed else "per_day"] = error.advice
    values: dict[str, Any] = {"typed": typed, "errors": errors, "bill": found, "listed": LISTED, "region": REGION}
    values["others"] = [] if found is None else rivals(found.workload)
    if console.local is not None:
        total = sum(dollars(unit, count) for unit, count in console.local.units.items())
        values |= {"spent": total, "counts": sorted(console.local.requests.items())}
    return "cost.html", values


def _workload(typed: dict[str, str]) -> Workload:
    numbers = {}
    for name in ("per_day", "size", "batch"):
        try:
            numbers[name] = float(typed[name].replace(",", ""))
        except ValueError:
            numbers[name] = math.nan
        if not math.isfinite(numbers[name]):
            raise InvalidValue(name, typed[name], "give a number")
    mean_s = delay_ms(typed["delay_mean"], "delay_mean") / 1000
    return Workload(
        per_day=numbers["per_day"],
        delay_mean_s=mean_s,
        spread=Spread.EVEN,
        size_bytes=int(numbers["size"]),
        batch=int(numbers["batch"]),
    )
