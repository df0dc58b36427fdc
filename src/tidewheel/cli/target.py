"""Defines the global options, which choose the service."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from tidewheel.client import dev_service
from tidewheel.client.dev_service import THIS_MACHINE, DevService
from tidewheel.errors import InvalidValue
from tidewheel.model.topic import check_name

if TYPE_CHECKING:
    import boto3

    from tidewheel.client.tidewheel import Tidewheel

LOCAL = "for a service on this machine: tidewheel dev"
"""What to do without AWS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The global options.

    Attributes:
        stack: name of the deployed stack.
        endpoint_url: the URL of AWS, for the local runtime.
        region, profile: for boto3. None: boto3's defaults.
        typed: which of these were given on the command line, and not by the environment.
        dev: the running `tidewheel dev` that has the endpoint.
    """

    stack: str = "tidewheel"
    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    typed: Collection[str] = ()
    dev: DevService | None = None

    @property
    def here(self) -> bool:
        """Whether the service is on this machine, and not a deployed stack."""
        return self.endpoint_url is not None and urlsplit(self.endpoint_url).hostname in THIS_MACHINE

    def command(self, name: str) -> str:
        """Returns a command in words, with the global options of the command line."""
        names = ("stack", "endpoint_url", "region", "profile")
        given = [(each, getattr(self, each)) for each in names if each in self.typed or each in ("region", "profile")]
        options = [f"--{each.replace('_', '-')} {value}" for each, value in given if value is not None]
        return " ".join(["tidewheel", *options, name])

    def client(self, session: boto3.Session | None = None) -> Tidewheel:
        """Creates the client. Loads boto3 only here, so that help is fast. Raises InvalidValue as `session`."""
        from tidewheel.client.tidewheel import Tidewheel

        return Tidewheel(self.stack, session=session or self.session(), endpoint_url=self.endpoint_url)

    def session(self) -> boto3.Session:
        """Creates the session. An endpoint on this machine takes any credentials.

        Raises:
            InvalidValue: the stack's name or the endpoint is not usable, or the region is none of AWS's.
        """
        import boto3
        from botocore.exceptions import UnknownRegionError

        from tidewheel.client.connection import check_endpoint

        check_name("stack_name", self.stack)
        check_endpoint("--endpoint-url", self.endpoint_url)
        if self.dev is not None:
            return self.dev.session()
        session = boto3.Session(region_name=self.region, profile_name=self.profile)
        if self.endpoint_url is None:
            try:
                session.get_partition_for_region(session.region_name or "")
            except UnknownRegionError:
                advice = (
                    f"give a region such as eu-central-1, with --region, AWS_DEFAULT_REGION or the profile; or {LOCAL}"
                )
                raise InvalidValue("region", session.region_name, advice) from None
        if not self.here or session.get_credentials() is not None:
            return session
        # boto3 refuses to work without credentials.
        region = session.region_name or "us-east-1"
        return boto3.Session(region_name=region, aws_access_key_id="local", aws_secret_access_key="local")


def client(ctx: typer.Context) -> Tidewheel:
    """Returns the client for the global options of a command. Raises the errors of `target`."""
    return target(ctx).client()


def target(ctx: typer.Context) -> Target:
    """Returns the global options of a command. The running `tidewheel dev` may give what the command line does not.

    Raises:
        NotConfigured: TIDEWHEEL_DEV=1 is set, and no `tidewheel dev` answers.
    """
    given: Target = ctx.obj
    if dev_service.is_wanted() and given.profile is None and "endpoint_url" not in given.typed:
        dev: DevService | None = dev_service.running()
    else:
        dev = None if given.endpoint_url is None else dev_service.service_for(given.endpoint_url)
    if dev is None:
        return given
    stack = given.stack if "stack" in given.typed else dev.stack
    return replace(given, stack=stack, endpoint_url=dev.endpoint, region=dev.region, dev=dev)
