"""Imports moto's SSM without moto's EC2.

Why: moto's SSM imports moto's EC2 for the instances of its inventory. EC2 reads the types of instances of all regions,
which takes 0.7 s of CPU. Here it is imported when its instances are first asked for.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Ec2Backends:
    """Stands for the backends of moto's EC2."""

    def __getitem__(self, account_id: str) -> Any:
        from moto.ec2.models import ec2_backends

        return ec2_backends[account_id]


if "moto.ec2" in sys.modules:
    from moto.ssm.models import Parameter, ssm_backends
else:
    stand_in: Any = ModuleType("moto.ec2")
    stand_in.ec2_backends = _Ec2Backends()
    sys.modules["moto.ec2"] = stand_in
    try:
        from moto.ssm.models import Parameter, ssm_backends
    finally:
        del sys.modules["moto.ec2"]

__all__ = ["Parameter", "ssm_backends"]
