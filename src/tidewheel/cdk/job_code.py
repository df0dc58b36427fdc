"""Makes the code of the Glue jobs assets of the CDK."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aws_cdk import AssetHashType, AssetStaging, BundlingOutput, Stack
from aws_cdk import aws_s3 as s3
from aws_cdk.aws_s3_assets import Asset
from constructs import Construct

from tidewheel.bundling.jobs import WHEELS_SUFFIX, package_hash, wheels_hash, write_package, write_wheels
from tidewheel.cdk.bundling import bundled_by
from tidewheel.shipped import PACKAGE


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
            asset_hash=package_hash(),
            asset_hash_type=AssetHashType.CUSTOM,
            bundling=bundled_by(write_package, BundlingOutput.SINGLE_FILE),
        )
        return Uploaded(bucket=asset.bucket, key=asset.s3_object_key)

    def _wheels(self) -> Uploaded:
        stack = Stack.of(self)
        staging = AssetStaging(
            self,
            "Wheels",
            source_path=str(PACKAGE),
            asset_hash=wheels_hash(),
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
