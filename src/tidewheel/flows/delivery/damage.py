"""Tells damage of stored bytes from trouble of S3."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

from tidewheel.errors import CorruptLedger, ObjectMissing, ObjectRefused
from tidewheel.flows.ports import Ports
from tidewheel.model.object_names import LEDGERS

_OTHERS = 3
"""Other ledgers that are asked whether S3 answers at all, before a fault counts as a ledger's own."""


def is_damage(error: Exception) -> bool:
    """Returns whether an error says that bytes are lost. All others, such as a refused or late answer, may pass."""
    return isinstance(error, (CorruptLedger, ObjectMissing))


def others_read(ports: Ports, topic: str, names: Collection[str]) -> list[bool]:
    """Returns for a few other ledgers whether they can be read. Empty if there is no other.

    They are of the same topic, or of any topic if the topic has no other ledger.
    """
    ledgers = (each.object_name for each in ports.buckets.in_order(topic, {}))
    others = list(islice((name for name in ledgers if name not in names), _OTHERS))
    if not others:
        listed = (each.name for each in ports.objects.list(LEDGERS))
        others = list(islice((name for name in listed if name not in names), _OTHERS))
    found = []
    for name in others:
        try:
            found.append(bool(ports.objects.get_range(name, 0, 4)))
        except Exception:
            found.append(False)
    return found


def raise_if_all_fails(ports: Ports, topic: str, names: Collection[str], errors: Sequence[Exception]) -> None:
    """Raises S3's error if S3 gave no bytes of some ledgers, said of none that it is missing, and gives no other.

    If there is no other ledger, only if one of the errors is no refusal (403).
    """
    if any(is_damage(each) for each in errors):
        return
    others = others_read(ports, topic, names)
    refused = all(isinstance(each, ObjectRefused) for each in errors)
    if not any(others) and (others or not refused):
        raise errors[0]
