"""Cancels all messages of a group, after a look at the cost."""

# region cancel
from tidewheel import Tidewheel


def cancel_tenant(tw: Tidewheel, tenant: str, most_dollars: float = 1.0) -> int:
    """Cancels a tenant's reminders if that costs little. Returns how many were cancelled."""
    cost = tw.estimate("reminders", group=tenant)
    print(f"{cost.messages} messages by {cost.requests} requests: ${cost.dollars:.4f}")
    if cost.dollars + cost.messages * cost.cancel_dollars > most_dollars:
        return 0
    return tw.cancel_where("reminders", group=tenant, progress=print).done


# endregion
