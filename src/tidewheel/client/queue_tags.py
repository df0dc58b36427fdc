"""Tags of SQS queues, which tell queues of subscriptions from the service's own."""

from __future__ import annotations

STACK_TAG, ROLE_TAG = "tidewheel:stack", "tidewheel:role"
SUBSCRIPTION, DEAD_LETTERS, SERVICE = "subscription", "dead letters", "service"
"""Values of ROLE_TAG. The functions may send to queues tagged with their service and SUBSCRIPTION. The stack's own
queues are tagged SERVICE, so that administrators can neither delete them nor tag them anew."""
