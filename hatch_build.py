"""Hooks of the build: the text for a package index, and the pages and templates that come with the package."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)]*)\)")


class Readme(MetadataHookInterface):
    """Makes the long description of README.md."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the field `readme`."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        at = f"{repository}/blob/v{metadata['version']}/" if repository else None
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index(text, at)}


class Parts(BuildHookInterface[Any]):
    """Puts the documentation into the wheel, for `tidewheel docs`, and the templates of `tidewheel deploy`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the Markdown files, without plots. Write the templates, where the CDK is installed."""
        root = Path(self.root)
        if version != "editable" and importlib.util.find_spec("aws_cdk") is not None and is_stale(root):
            command = [sys.executable, "-m", "infra.shipped_templates"]
            environment = {**os.environ, "PYTHONPATH": str(root / "src")}
            subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True)
        if self.target_name == "wheel":
            for page in (root / "docs").rglob("*.md"):
                name = page.relative_to(root / "docs").as_posix()
                build_data["force_include"][str(page)] = f"tidewheel/_docs/{name}"


def is_stale(root: Path) -> bool:
    """Return whether a source is newer than a template, or a template is missing."""
    templates = [path.stat().st_mtime for path in (root / "src" / "tidewheel" / "_templates").glob("*.json")]
    folders = (root / name for name in ("src", "infra", "functions", "glue_jobs"))
    sources = [root / "requirements.lock", *(path for folder in folders for path in folder.rglob("*.py"))]
    return len(templates) < 4 or min(templates) <= max(path.stat().st_mtime for path in sources)


def for_index(readme: str, base_url: str | None) -> str:
    """Return a Markdown text without relative links, which lead nowhere on a package index.

    Args:
        readme: The text.
        base_url: Where the repository's files are: relative links get it in front. If it is None, images are left out,
            the link `[docs/sdk.md](docs/sdk.md)` becomes the command that prints the page, and others their text.
    """

    def rewritten(link: re.Match[str]) -> str:
        mark, text, target = link.groups()
        if ":" in target:
            return link[0]
        if target.startswith("#"):  # an index gives headings no anchors
            return text
        if base_url is not None:
            return f"{mark}[{text}]({base_url}{target}{'?raw=true' if mark else ''})"
        page = re.fullmatch(r"docs/(.*)\.md", text)
        return "" if mark else f"`tidewheel docs {page[1]}`" if page else text

    return LINK.sub(rewritten, readme)
