"""The shell commands of all documents, from blocks and prose."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.test_snippets import DOCUMENTS, ROOT, blocks, prose

LANGUAGES = ("sh", "bash", "shell", "console")
ENDS = ("&&", "||", "|", ";", ">", ">>", "<")
_PLACEHOLDER = re.compile(r"<[a-zA-Z][^<>]*>")
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]\w*\}?|\$\([^()]*\)")
_ASSIGNMENT = re.compile(r"[A-Z_]+=")
PLACE = "placeholder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of a document.

    Attributes:
        line: where its block begins; None: it is quoted in prose.
        words: as the shell would split them; what a reader fills in is PLACE.
    """

    document: Path
    line: int | None
    words: tuple[str, ...]

    def __str__(self) -> str:
        place = "prose" if self.line is None else self.line
        return f"{self.document.relative_to(ROOT)}:{place}: {' '.join(self.words)}"


def commands(program: str, *, quoted: bool = True) -> list[Command]:
    """Returns the commands with these first words, such as "aws" or "npx aws-cdk", starting with blocks."""
    first = tuple(program.split())
    everything = [*_of_blocks(), *(_of_prose() if quoted else ())]
    return [each for each in everything if each.words[: len(first)] == first]


def _of_blocks() -> Iterator[Command]:
    for block in blocks(*LANGUAGES):
        for text in block.text.replace("\\\n", " ").splitlines():
            for words in _split(text):
                yield Command(document=block.document, line=block.line, words=words)


def _of_prose() -> Iterator[Command]:
    for document in DOCUMENTS:
        for text in re.findall(r"`([a-z][^`\n]* [^`\n]*)`", prose(document)):
            try:
                for words in _split(text):
                    yield Command(document=document, line=None, words=words)
            except ValueError:  # no shell command: an open quotation mark
                continue


def _split(text: str) -> Iterator[tuple[str, ...]]:
    """Yields the commands of a line, with pipes and lists split, without redirections and assignments."""
    inner = re.findall(r"\$\(([^()]*)\)", text)
    for each in inner:
        yield from _split(each)
    plain = _VARIABLE.sub(PLACE, _PLACEHOLDER.sub(PLACE, text))
    words = shlex.split(plain, comments=True)
    while words:
        ends = [i for i, word in enumerate(words) if word in ENDS] + [len(words)]
        found = words[: ends[0]]
        while found and _ASSIGNMENT.match(found[0]):
            found = found[1:]
        if found:
            yield tuple(found)
        to_file = words[ends[0] : ends[0] + 1] in ([">"], [">>"], ["<"])
        words = words[ends[0] + 1 + to_file :]
