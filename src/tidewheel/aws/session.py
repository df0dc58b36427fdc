"""What clients are made by: boto3's session, or botocore's alone.

boto3 itself adds resources, their documentation and transfers in parts to botocore: 60 modules, `multiprocessing` among
them, of which a function uses none. Its clients are botocore's.
"""

from __future__ import annotations

from typing import Any, Protocol

import botocore.session
from botocore.config import Config
from botocore.hooks import BaseEventHooks


class ClientSession(Protocol):
    """What is used of `boto3.session.Session` by who makes clients."""

    def client(self, service_name: Any, *, config: Config | None = None, endpoint_url: str | None = None) -> Any:
        """Makes a client of a service, such as "s3"."""
        ...


class CoreSession:
    """botocore's session in boto3's words: a function's, made at cold start.

    Attributes:
        events: what happens to each client that is made later.
    """

    def __init__(self) -> None:
        # By the module: the local runtime puts sessions of its own there.
        self._core = botocore.session.get_session()
        self.events: BaseEventHooks = self._core.get_component("event_emitter")

    def client(self, service_name: Any, *, config: Config | None = None, endpoint_url: str | None = None) -> Any:
        """Makes a client of a service, such as "s3"."""
        return self._core.create_client(service_name, config=config, endpoint_url=endpoint_url)
