"""Makes the archives of `tidewheel.bundling` assets of the CDK."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jsii
from aws_cdk import AssetHashType, BundlingOptions, BundlingOutput, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_

from tidewheel.bundling.functions import functions_hash, write_bundle
from tidewheel.shipped import PACKAGE

NO_DOCKER = DockerImage.from_registry("docker-is-not-used")
"""The Docker image that CDK requires as a fallback. Local bundling never falls back to it."""


def service_code() -> lambda_.Code:
    """Returns the code of all functions.

    CDK bundles the code only for stacks in its context `aws:cdk:bundling-stacks`.
    """
    return lambda_.Code.from_asset(
        str(PACKAGE),
        asset_hash=functions_hash(),
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=bundled_by(write_bundle, BundlingOutput.ARCHIVED),
    )


@jsii.implements(ILocalBundling)
class LocalArchive:
    """Makes an asset's archive on this machine."""

    def __init__(self, write: Callable[[Path], object]) -> None:
        """Stores the function that writes the archive into a folder."""
        self._write = write

    # jsii passes the options by keyword only because one option is named here.
    def try_bundle(self, output_dir: str, *, image: object, **_options: object) -> bool:  # noqa: ARG002
        """Writes the archive into a folder."""
        self._write(Path(output_dir))
        return True


def bundled_by(write: Callable[[Path], object], output: BundlingOutput) -> BundlingOptions:
    """Returns the bundling options of an asset whose archive `write` makes."""
    return BundlingOptions(image=NO_DOCKER, local=LocalArchive(write), output_type=output)
