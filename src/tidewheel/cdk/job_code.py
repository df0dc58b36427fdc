"""Bundles the code of the Glue jobs as files that the deployment uploads.

    <hash>.py                  a script of `glue_jobs`
    <hash>.zip                 the parts of this package that jobs need: `--extra-py-files`
    <hash>.gluewheels.zip      the packages that Glue lacks, as wheels: `--additional-python-modules`

Glue installs the wheels when a run starts. With `--no-index` pip asks no package index. So a job can run in a subnet
without internet access, and uses the tested versions. Glue 5.0 and later know such an archive by the end of its name:
https://docs.aws.amazon.com/glue/latest/dg/aws-glue-programming-python-libraries.html

    wheels/requirements.txt    names and versions
    wheels/*.whl
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from aws_cdk import AssetHashType, AssetStaging, BundlingOutput, Stack
from aws_cdk import aws_s3 as s3
from aws_cdk.aws_s3_assets import Asset
from constructs import Construct

from tidewheel.cdk.archive import bundled_by, files_of, fingerprint, write_archive
from tidewheel.cdk.bundling import makers
from tidewheel.cdk.pinned_packages import GLUE, pinned, run_uv
from tidewheel.errors import BundleFailed
from tidewheel.shipped import PACKAGE, PUBLIC_NAMES

GLUE_PACKAGES = ("cronsim", "msgspec", "pyarrow", "pyroaring", "tzdata")
"""The packages that this package needs in a job. Glue already has boto3, numpy, pandas, py4j and pyspark."""

JOB_FOLDERS = ("aws", "client", "flows", "jobs", "ledger", "model", "spark", "storage")
"""The folders of this package that jobs import from, beside the modules in the root folder."""

WHEELS_SUFFIX = ".gluewheels.zip"
"""The suffix by which Glue recognizes an archive of wheels."""

PIP_VERSION = "26.0.1"
"""The version of pip that uv runs: uv itself cannot download wheels."""

NO_INDEX = "--no-index"
"""The option that keeps pip from asking a package index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """A file that the deployment uploads.

    Attributes:
        bucket: The S3 bucket of the CDK's bootstrap.
        key: The object's name.
    """

    bucket: s3.IBucket
    key: str

    @property
    def url(self) -> str:
        """The object's `s3://` URL."""
        return self.bucket.s3_url_for_object(self.key)


class JobCode(Construct):
    """The code that all jobs share.

    Attributes:
        package: This package as an archive, for `--extra-py-files`.
        wheels: The other packages as an archive of wheels, for `--additional-python-modules`.
    """

    def __init__(self, scope: Construct, id_: str) -> None:
        """Stages the archives.

        CDK makes the archives only for stacks in its context `aws:cdk:bundling-stacks`.
        """
        super().__init__(scope, id_)
        self.package = self._package()
        self.wheels = self._wheels()

    def _package(self) -> Uploaded:
        # Spark adds archives to the import path by their suffix, such as .zip.
        asset = Asset(
            self,
            "Package",
            path=str(PACKAGE),
            asset_hash=fingerprint(job_files(), *makers()),
            asset_hash_type=AssetHashType.CUSTOM,
            bundling=bundled_by(write_package, BundlingOutput.SINGLE_FILE),
        )
        return Uploaded(bucket=asset.bucket, key=asset.s3_object_key)

    def _wheels(self) -> Uploaded:
        stack = Stack.of(self)
        # The hash needs no wheels, since the lock file has the hashes of the wheels.
        hash_ = fingerprint({}, pinned(GLUE_PACKAGES, GLUE), Path(__file__).read_text(encoding="utf-8"), *makers())
        staging = AssetStaging(
            self,
            "Wheels",
            source_path=str(PACKAGE),
            asset_hash=hash_,
            asset_hash_type=AssetHashType.CUSTOM,
            bundling=bundled_by(write_wheels, BundlingOutput.SINGLE_FILE),
        )
        # Not an Asset: its object would be named <hash>.zip, which Glue does not recognize.
        location = stack.synthesizer.add_file_asset(
            source_hash=f"{staging.asset_hash}{WHEELS_SUFFIX.removesuffix('.zip')}",
            file_name=staging.relative_staged_path(stack),
            packaging=staging.packaging,
            display_name="Wheels of the Glue jobs",
        )
        bucket = s3.Bucket.from_bucket_name(self, "Bucket", location.bucket_name)
        return Uploaded(bucket=bucket, key=location.object_key)


def script(scope: Construct, id_: str, path: Path) -> Uploaded:
    """Returns a job's uploaded script."""
    asset = Asset(scope, id_, path=str(path))
    return Uploaded(bucket=asset.bucket, key=asset.s3_object_key)


def job_files() -> dict[str, Path]:
    """Returns the files of this package for the jobs, by their names in the archive."""
    inside = (path for folder in JOB_FOLDERS for path in (PACKAGE / folder).rglob("*.py"))
    found = [*PACKAGE.glob("*.py"), PACKAGE / PUBLIC_NAMES, *inside]
    return {path.relative_to(PACKAGE.parent).as_posix(): path for path in found}


def write_package(target: Path) -> None:
    """Writes the files of this package for the jobs to a folder, as `tidewheel.zip`."""
    write_archive(job_files(), target / "tidewheel.zip")


def write_wheels(target: Path) -> None:
    """Writes the wheels that Glue installs to a folder, as `tidewheel.gluewheels.zip`.

    Raises:
        BundleFailed: uv is missing, or pip failed with a message on stderr.
    """
    locked = pinned(GLUE_PACKAGES, GLUE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _download(locked, folder)
        versions = re.findall(r"^[a-z0-9][^\s;]*", locked, flags=re.MULTILINE)
        # Without the hashes: they were checked here, and Glue's own options for pip may conflict with hashes.
        (folder / "requirements.txt").write_text("".join(f"{each}\n" for each in versions), encoding="utf-8")
        files = {f"wheels/{name}": path for name, path in files_of(folder).items()}
        write_archive(files, target / f"tidewheel{WHEELS_SUFFIX}")


def _download(requirements: str, target: Path) -> None:
    pip = ["tool", "run", "--quiet", f"--python={sys.executable}", f"pip=={PIP_VERSION}", "download"]
    platforms = [f"--platform={name}_{GLUE.architecture}" for name in ("manylinux_2_28", "manylinux2014")]
    python = ["--implementation=cp", f"--python-version={GLUE.python}", *platforms]
    if not run_uv(requirements, *pip, "--disable-pip-version-check", *python, f"--dest={target}"):
        raise BundleFailed("pip could not download the wheels of the Glue jobs: it says why above.")
