"""Makes the SDK a Lambda layer for a team's own functions, without Docker.

    python/tidewheel/                  the package without the files that `bundling.LEFT_OUT` names
    python/pyroaring... cronsim/ ...   from PyPI, as pinned in requirements.lock, for one architecture

The layer has no boto3, since it would replace Lambda's own boto3 for all code of the function. `get` and `peek` read
ledgers and need pyarrow, which is too large for the layer. A function that calls these methods must bring
`tidewheel[read]` itself.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import jsii
from aws_cdk import AssetHashType, BundlingOutput, Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IValidation

from tidewheel.bundling.archive import files_of, fingerprint, write_archive
from tidewheel.bundling.functions import install_files, makers, own_modules
from tidewheel.bundling.pinned_packages import LAMBDA, MACHINES, Machine, pinned
from tidewheel.cdk.bundling import bundled_by
from tidewheel.errors import InvalidValue
from tidewheel.shipped import PACKAGE

PACKAGES = ("cronsim", "pyroaring", "tzdata")
"""The packages that the client needs beside boto3."""


class SdkLayer(lambda_.LayerVersion):
    """A layer with the client, for `from tidewheel import Tidewheel, parse_received`.

    The layer is for functions with Python 3.13 on one architecture, since a package is compiled for these. The
    synthesis fails if a function of another architecture has the layer.
    """

    def __init__(
        self, scope: Construct, id_: str, *, architecture: lambda_.Architecture = lambda_.Architecture.ARM_64
    ) -> None:
        """Creates the layer.

        CDK bundles the layer only for stacks in its context `aws:cdk:bundling-stacks`.

        Args:
            scope: The stack, or a construct in it.
            id_: The layer's name in the scope.
            architecture: The functions' architecture. A function's default is `Architecture.X86_64`.

        Raises:
            InvalidValue: There are no packages for the architecture.
        """
        if architecture.name not in MACHINES:
            raise InvalidValue("architecture", architecture.name, f"give one of {', '.join(MACHINES)}")
        machine = MACHINES[architecture.name]
        code = lambda_.Code.from_asset(
            str(PACKAGE),
            asset_hash=layer_hash(machine),
            asset_hash_type=AssetHashType.CUSTOM,
            bundling=bundled_by(partial(write_layer, machine=machine), BundlingOutput.ARCHIVED),
        )
        super().__init__(
            scope,
            id_,
            code=code,
            description="Tidewheel: the client",
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            compatible_architectures=[architecture],
        )
        self.node.add_validation(SameArchitecture(self, architecture.name))


@jsii.implements(IValidation)
class SameArchitecture:
    """Finds functions with a layer for another architecture, since CDK compares only runtimes."""

    def __init__(self, layer: lambda_.LayerVersion, architecture: str) -> None:
        """Stores the layer and the name of the layer's architecture."""
        self._layer = layer
        self._architecture = architecture

    def validate(self) -> list[str]:
        """Returns an error for each function of the app with the wrong architecture."""
        home = Stack.of(self._layer)
        own = home.resolve(self._layer.layer_version_arn)
        errors = []
        for each in self._layer.node.root.node.find_all():
            if not isinstance(each, lambda_.CfnFunction):
                continue
            arn = each.stack.resolve(self._layer.layer_version_arn)
            # In a stack that does not use the layer, its ARN looks like the ARN of a layer of this stack.
            if arn == own and each.stack.node.path != home.node.path:
                continue
            has = (each.stack.resolve(each.architectures) or ["x86_64"])[0]
            if has != self._architecture and arn in (each.stack.resolve(each.layers) or []):
                errors.append(
                    f"{each.node.path} has the architecture {has}, and its layer {self._layer.node.path} is for "
                    f"{self._architecture}: give SdkLayer the function's architecture, or the function the layer's."
                )
        return errors


def layer_hash(machine: Machine) -> str:
    """Returns the hash of a layer's asset."""
    own = Path(__file__).read_text(encoding="utf-8")
    inputs = (pinned(PACKAGES, machine), own, *makers())
    return fingerprint(own_modules(), machine.architecture, *inputs)


def write_layer(target: Path, machine: Machine = LAMBDA) -> None:
    """Writes the layer to a folder as `sdk.zip`.

    Raises:
        BundleFailed: A package could not be installed.
    """
    with tempfile.TemporaryDirectory() as name:
        fill(Path(name), machine)
        write_archive(files_of(Path(name)), target / "sdk.zip")


def fill(folder: Path, machine: Machine = LAMBDA) -> None:
    """Writes the layer's content to an empty folder.

    Raises:
        BundleFailed: A package could not be installed.
    """
    packages = folder / "python"
    packages.mkdir()
    install_files(packages, pinned(PACKAGES, machine), own_modules(), machine)
