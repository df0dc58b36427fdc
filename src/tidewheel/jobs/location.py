"""Locates a job's objects and its table, in a value that the driver sends to its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

from tidewheel.flows.recovery.rebuild_keys import KeyPorts
from tidewheel.storage.objects import Objects

S3 = "s3://"
_LOCAL_ACCESS = "local"
_CONNECTIONS = 64
"""Connections that a client keeps. All tasks of a process share the client, and each may read eight ranges at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Locates objects.

    Attributes:
        root: `s3://` and the S3 bucket's name.
        endpoint_url: where S3 and DynamoDB answer; None: AWS itself.
        region: of AWS; by default taken from the environment.
        profile: profile in AWS's configuration files, for credentials; by default taken from the environment.
        role: ARN of a role that is assumed with these credentials; None: none.
        table: the table's name; None: no task uses the table.
    """

    root: str
    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    role: str | None = None
    table: str | None = None

    def objects(self) -> Objects:
        """Returns the objects, over this process's connections."""
        # Loaded here because botocore takes as long to load as everything else in a Spark worker.
        from tidewheel.aws.s3_objects import S3Objects

        return S3Objects(client(self, "s3"), s3_bucket=self.root.removeprefix(S3))


@cache
def key_ports(location: Location) -> KeyPorts:
    """Returns the ports to keys, over this process's connections."""
    from tidewheel.aws.service import parallel_of
    from tidewheel.storage.storage import Storage
    from tidewheel.storage.table import Table

    assert location.table is not None
    storage = Storage(Table(client(location, "dynamodb"), location.table), location.objects())
    return storage, parallel_of(_CONNECTIONS)


@cache
def client(location: Location, service: str) -> Any:
    """Returns this process's client of a service, such as "s3".

    The credentials come from botocore's chain, which renews them before they expire: a job may outlive its role's
    credentials. All tasks of a worker share the client, since making a client costs as much as many requests.
    """
    from tidewheel.aws.tries import JOB

    config = JOB.config(_CONNECTIONS, location.endpoint_url)
    made = _session(location).create_client(
        service, region_name=location.region, endpoint_url=location.endpoint_url, config=config
    )
    JOB.watch(made)
    return made


def _session(location: Location) -> Any:
    """Returns a session of botocore with the location's credentials."""
    import botocore.session

    session = botocore.session.Session(profile=location.profile)
    access = local_access(location.endpoint_url)
    if access is not None:
        session.set_credentials(access, access)
    if location.role is None:
        return session
    from botocore.credentials import AssumeRoleCredentialFetcher, CredentialResolver, DeferredRefreshableCredentials

    fetcher = AssumeRoleCredentialFetcher(
        partial(session.create_client, region_name=location.region, endpoint_url=location.endpoint_url),
        session.get_credentials(),
        location.role,
        extra_args={"RoleSessionName": "tidewheel"},
    )
    assumed = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    session = botocore.session.Session(profile=location.profile)
    provider: Any = SimpleNamespace(METHOD="assume-role", load=lambda: assumed)
    session.register_component("credential_provider", CredentialResolver([provider]))
    return session


def credentials(location: Location) -> tuple[str | None, str | None, str | None]:
    """Returns access key, secret and token of an endpoint without TLS, or of a role; else nothing."""
    access = local_access(location.endpoint_url)
    if location.role is None:
        return access, access, None
    found = _session(location).get_credentials().get_frozen_credentials()
    return found.access_key, found.secret_key, found.token


def local_access(endpoint_url: str | None) -> str | None:
    """Returns made-up credentials for an endpoint without TLS. Returns None for AWS."""
    return _LOCAL_ACCESS if endpoint_url is not None and endpoint_url.startswith("http://") else None
