"""A test run ends, even after the death of a worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY

ABORTS = "import os\n\ndef test_aborts():\n    os.abort()\n\ndef test_after():\n    pass\n"
IS_SLOW = "import time\n\ndef test_is_slow():\n    time.sleep(600)\n"


def test_a_dead_worker_fails_the_run_long_before_the_other_tests_end_and_names_its_test(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(ABORTS, encoding="utf-8")
    (tmp_path / "test_two.py").write_text(IS_SLOW, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    options = ["-n", "2", "--dist", "loadfile", "--max-worker-restart=0", "-p", "tests.dead_worker"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "a worker died in test_one.py::test_aborts" in run.stdout
