"""Bytecode: modules compiled beforehand, for a function cannot write to its folder: it would compile at each start.

Only the functions' own version of Python makes bytecode that they can read. So modules are compiled where the CDK app
runs on that version, and are left as source elsewhere.
"""

from __future__ import annotations

import compileall
import sys
from pathlib import Path
from py_compile import PycInvalidationMode

from tidewheel.cdk.pinned_packages import Machine

TASK_ROOT = "/var/task"
"""Where a function finds its code (Lambda, `LAMBDA_TASK_ROOT`): bytecode names it, not the folder where it was made."""


def compiles_for(machine: Machine) -> bool:
    """Whether this Python makes bytecode for a machine's."""
    return machine.python == f"{sys.version_info.major}.{sys.version_info.minor}"


def compile_modules(folder: Path, machine: Machine) -> None:
    """Compile all modules of a folder, if this Python can; functions will not compare them with their sources."""
    if compiles_for(machine):
        # Quiet: stdout belongs to jsii's conversation with node. What cannot be compiled fails when it is imported.
        compileall.compile_dir(
            folder,
            quiet=2,
            stripdir=str(folder),
            prependdir=TASK_ROOT,
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )
