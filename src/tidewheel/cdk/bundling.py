"""The code of the functions and of the Glue jobs, as assets.

Each bundle of `bundles.py` is a zip archive:

    pyarrow/ boto3/ ...                from PyPI, as pinned in requirements.lock, for Lambda's machine; thinned
    tidewheel/                         the modules of the package that its handlers import, in the end
    functions/<name>/handler.py        its handlers

uv or pip fetches wheels for arm64 wherever it runs, so no Docker is needed. The jobs have an archive of the modules
that their scripts import; Glue installs their other packages itself, as `glue_requirements` pins them.

An asset's hash is made of what goes into it: pinned packages, own modules, the code that bundles, and whether modules
are compiled. So it is known without bundling and equal on all machines with one version of Python, a change of anything
else deploys nothing, and what is in `cdk.out` already is not made again.
"""

from __future__ import annotations

import inspect
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import jsii
from aws_cdk import AssetHashType, BundlingOptions, BundlingOutput, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_
from aws_cdk.aws_s3_assets import Asset
from constructs import Construct

from tidewheel.cdk import archive, bytecode, pinned_packages, service_descriptions, shared_object, thinning
from tidewheel.cdk.archive import files_of, fingerprint, write_archive
from tidewheel.cdk.bundles import BUNDLES, LAMBDA_LIMIT_BYTES, MB, SERVICES, UNUSED, Bundle, BundleFailed
from tidewheel.cdk.pinned_packages import GLUE, LAMBDA, Machine, install, pinned
from tidewheel.cdk.reach import Reach, reach
from tidewheel.shipped import FUNCTIONS, GLUE_JOBS, PACKAGE, shipped

GLUE_PACKAGES = ("cronsim", "pyarrow", "pyroaring", "tzdata")
"""What the package needs in a Glue job; boto3, numpy, py4j and pyspark Glue has."""

NO_DOCKER = DockerImage.from_registry("docker-is-not-used")
"""CDK demands an image, and would fall back to it; our local bundling never lets it."""

_MAKERS = (archive, bytecode, pinned_packages, service_descriptions, shared_object, thinning)
"""The modules that decide on an archive's bytes, beside what goes into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSize:
    """How large a bundle is.

    Attributes:
        unpacked_bytes: As a function has it.
        zipped_bytes: As it is uploaded.
    """

    unpacked_bytes: int
    zipped_bytes: int


def service_code() -> dict[str, lambda_.Code]:
    """Return each function's code. CDK bundles only for stacks in its context `aws:cdk:bundling-stacks`."""
    codes = {bundle: _code(bundle) for bundle in BUNDLES}
    return {function: code for bundle, code in codes.items() for function in bundle.functions}


def package_asset(scope: Construct, id_: str) -> Asset:
    """Return what the jobs import of this package as an asset that ends in `.zip`.

    Spark puts archives on the import path by their ending: `.zip`, `.egg` or `.jar`.
    """
    return Asset(
        scope,
        id_,
        path=str(PACKAGE),
        asset_hash=fingerprint(job_files(), *_makers()),
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=BundlingOptions(image=NO_DOCKER, local=LocalPackage(), output_type=BundlingOutput.SINGLE_FILE),
    )


def glue_requirements() -> str:
    """Return what pip installs when a Glue job starts: versions and hashes of the lock file, and wheels only.

    One hash in such a file makes pip want one of each package and of all that these need, so it installs nothing else.
    Glue takes the file from version 5.0 on:
    https://docs.aws.amazon.com/glue/latest/dg/aws-glue-programming-python-libraries.html
    """
    return f"--require-hashes\n--only-binary :all:\n{pinned(GLUE_PACKAGES, GLUE)}"


def requirements_asset(scope: Construct, id_: str) -> Asset:
    """Return `glue_requirements` as an asset that ends in `.txt`."""
    text = glue_requirements()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text(text, encoding="utf-8")
        # The file is copied to cdk.out at once.
        return Asset(
            scope,
            id_,
            path=str(file),
            asset_hash=fingerprint({}, text),
            asset_hash_type=AssetHashType.CUSTOM,
        )


def own_reach(bundle: Bundle) -> Reach:
    """Return what a bundle's handlers import."""
    return reach(_handlers(bundle).values())


def own_files(bundle: Bundle) -> dict[str, Path]:
    """Return a bundle's handlers and modules of this package, by their names in it."""
    return {**_handlers(bundle), **_module_files(own_reach(bundle))}


def job_files() -> dict[str, Path]:
    """Return the modules of this package that the Glue jobs import, by their names in the archive."""
    return _module_files(reach(shipped(GLUE_JOBS).glob("*.py")))


def bundle_hash(bundle: Bundle) -> str:
    """Return the hash of a bundle's asset."""
    options = json.dumps([UNUSED, sorted(SERVICES), bytecode.compiles_for(LAMBDA)])
    inputs = (pinned(bundle.packages), options, *_makers())
    return fingerprint(own_files(bundle), *inputs)


def fill(folder: Path, bundle: Bundle, machine: Machine = LAMBDA) -> None:
    """Put a bundle's content into an empty folder.

    Raises:
        BundleFailed: A package could not be installed, or one that a handler imports is not in the bundle.
    """
    install(pinned(bundle.packages, machine), folder, machine)
    own = own_files(bundle)
    thinning.thin(folder, own.values())
    for name, path in own.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)
    bytecode.compile_modules(folder, machine)
    thinning.check(folder, own_reach(bundle).packages, machine)


def write_bundle(bundle: Bundle, target: Path) -> BundleSize:
    """Write a bundle to a folder as `<name>.zip`, and its size to stderr.

    Raises:
        BundleFailed: As `fill`; or it is larger than it may be.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, bundle)
        files = files_of(folder)
        unpacked = sum(path.stat().st_size for path in files.values())
        if unpacked > bundle.limit_bytes:
            raise BundleFailed(
                f"The bundle {bundle.name} has {unpacked / MB:.1f} MB unpacked, more than its limit of "
                f"{bundle.limit_bytes / MB:.0f} MB: see what grew, and UNUSED in `bundles.py`."
            )
        zipped = target / f"{bundle.name}.zip"
        write_archive(files, zipped)
    size = BundleSize(unpacked_bytes=unpacked, zipped_bytes=zipped.stat().st_size)
    compiled = "compiled" if bytecode.compiles_for(LAMBDA) else f"as source: Python {LAMBDA.python} would compile it"
    # stdout belongs to jsii's conversation with node.
    print(
        f"Bundle {bundle.name} ({', '.join(_names(bundle))}): {size.unpacked_bytes / MB:.1f} MB unpacked "
        f"of Lambda's {LAMBDA_LIMIT_BYTES / MB:.0f} MB, {size.zipped_bytes / MB:.1f} MB zipped; {compiled}.",
        file=sys.stderr,
    )
    return size


def write_package(target: Path) -> None:
    """Write what the jobs import of this package to a folder as `tidewheel.zip`."""
    write_archive(job_files(), target / "tidewheel.zip")


@jsii.implements(ILocalBundling)
class LocalBundle:
    """Makes a bundle on this machine."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    # jsii passes the options by keyword only because it finds one of them named here.
    def try_bundle(self, output_dir: str, *, image: object, **_options: object) -> bool:  # noqa: ARG002
        """Write the bundle to a folder.

        Raises:
            BundleFailed: It could not be made.
        """
        write_bundle(self._bundle, Path(output_dir))
        return True


@jsii.implements(ILocalBundling)
class LocalPackage:
    """Makes the jobs' archive on this machine."""

    # As in LocalBundle.
    def try_bundle(self, output_dir: str, *, image: object, **_options: object) -> bool:  # noqa: ARG002
        """Write the archive to a folder."""
        write_package(Path(output_dir))
        return True


def _code(bundle: Bundle) -> lambda_.Code:
    return lambda_.Code.from_asset(
        str(PACKAGE),
        asset_hash=bundle_hash(bundle),
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=BundlingOptions(image=NO_DOCKER, local=LocalBundle(bundle), output_type=BundlingOutput.ARCHIVED),
    )


def _names(bundle: Bundle) -> list[str]:
    return [name for name in bundle.functions if (shipped(FUNCTIONS) / name).is_dir()]


def _handlers(bundle: Bundle) -> dict[str, Path]:
    folder = shipped(FUNCTIONS)
    return {f"functions/{name}/handler.py": folder / name / "handler.py" for name in _names(bundle)}


def _module_files(found: Reach) -> dict[str, Path]:
    return {f"{PACKAGE.name}/{path.relative_to(PACKAGE).as_posix()}": path for path in found.modules.values()}


def _makers() -> list[str]:
    return [inspect.getsource(module) for module in _MAKERS]
