"""What the functions' bundles have in them, as data.

    arrow    ingest, dispatch, deliver, compact    they read or write ledgers: with pyarrow and numpy
    lean     sweep, declare                        they do not

Lambda takes no more than 250 MiB unpacked; with all packages as they come from PyPI a bundle has 245. What a function
does not bring it need not load either.
"""

from __future__ import annotations

from dataclasses import dataclass

MB = 1_000_000

LAMBDA_LIMIT_BYTES = 250 * 1024 * 1024
"""The most that a function may have unpacked (Lambda quotas, "Deployment package size")."""


class BundleFailed(Exception):
    """The functions' or the jobs' code could not be bundled: the message says why, and that of pip stands above it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What some functions are deployed with.

    Attributes:
        name: One lower-case word.
        functions: The functions, each a folder of `functions`. Not all of them need to exist.
        packages: Packages of requirements.lock, with all that they need in turn.
        limit_bytes: The most that it may take unpacked; a package that grew is found when it is bundled.
    """

    name: str
    functions: tuple[str, ...]
    packages: tuple[str, ...]
    limit_bytes: int


LEAN_PACKAGES = (
    "aws-lambda-powertools",
    "aws-xray-sdk",
    "boto3",
    "botocore",
    "cronsim",
    "jmespath",
    "pyroaring",
    "python-dateutil",
    "s3transfer",
    "six",
    "typing-extensions",
    "tzdata",
    "urllib3",
    "wrapt",
)
"""What `tidewheel[lambda]` needs, and what that needs, but for what ledgers are read and written with."""

ARROW_PACKAGES = (*LEAN_PACKAGES, "numpy", "pyarrow")

LEAN = Bundle(name="lean", functions=("sweep", "declare"), packages=LEAN_PACKAGES, limit_bytes=20 * MB)
ARROW = Bundle(
    name="arrow",
    functions=("ingest", "dispatch", "deliver", "compact"),
    packages=ARROW_PACKAGES,
    limit_bytes=140 * MB,
)

BUNDLES = (ARROW, LEAN)

SERVICES = frozenset({"dynamodb", "glue", "lambda", "s3", "scheduler", "sqs", "ssm", "sts", "xray"})
"""The AWS services whose description botocore keeps: those that the functions call, credentials' and tracing's."""

UNUSED = (
    # Installers' own.
    ".lock",
    "bin",
    "*.dist-info/INSTALLER",
    "*.dist-info/RECORD",
    "*.dist-info/REQUESTED",
    "*.dist-info/WHEEL",
    "*.dist-info/direct_url.json",
    "*.dist-info/entry_points.txt",
    "*.dist-info/top_level.txt",
    "*.dist-info/zip-safe",
    # For those who develop, or build against a package.
    "**/__pycache__",
    "**/tests",
    "**/*.a",
    "**/*.c",
    "**/*.h",
    "**/*.hpp",
    "**/*.pxd",
    "**/*.pxi",
    "**/*.pyi",
    "**/*.pyx",
    "**/py.typed",
    "wrapt-stubs",
    # pyarrow without Flight, cloud file systems, datasets, encryption and other formats. libarrow_acero, _dataset and
    # _substrait stay: libarrow_python is linked with them.
    "pyarrow/_acero.*.so",
    "pyarrow/_azurefs.*.so",
    "pyarrow/_csv.*.so",
    "pyarrow/_dataset*.so",
    "pyarrow/_feather.*.so",
    "pyarrow/_flight.*.so",
    "pyarrow/_gcsfs.*.so",
    "pyarrow/_hdfs.*.so",
    "pyarrow/_json.*.so",
    "pyarrow/_orc.*.so",
    "pyarrow/_parquet_encryption.*.so",
    "pyarrow/_pyarrow_cpp_tests.*.so",
    "pyarrow/_s3fs.*.so",
    "pyarrow/_substrait.*.so",
    "pyarrow/include",
    "pyarrow/includes",
    "pyarrow/src",
    "pyarrow/libarrow_flight.so*",
    "pyarrow/libarrow_python_flight.so*",
    "pyarrow/libarrow_python_parquet_encryption.so*",
    "pyarrow/libarrow_s3.so*",
    # The same library under three names; the other modules ask for that with the major version.
    "pyarrow/libarrow_python.so",
    "pyarrow/libarrow_python.so.*.*",
    # numpy without what it loads only when asked. pyarrow asks for `ma`, and that for `linalg`: they stay.
    "numpy/_core/_*_tests.*.so",
    "numpy/_core/_simd.*.so",
    "numpy/_core/include",
    "numpy/_core/lib",
    "numpy/_pyinstaller",
    "numpy/conftest.py",
    "numpy/doc",
    "numpy/f2py",
    "numpy/fft",
    "numpy/linalg/lapack_lite.*.so",
    "numpy/polynomial",
    "numpy/random",
    "numpy/testing",
    # boto3's resources: only clients are used.
    "boto3/data",
    "boto3/examples",
    "botocore/data/*/*/examples-1.json",
    # HTTP routes and their documentation.
    "aws_lambda_powertools/event_handler",
)
"""Patterns of what is left out, relative to the bundle. Names, licences and versions of packages stay for audits."""
