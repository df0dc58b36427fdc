"""Writes docs/reference-sdk.md from docstrings, with `python -m infra.sdk_reference [--check]`."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NewType

import tidewheel
from infra.doc_tables import table
from infra.kept_file import write_or_check
from tidewheel import AsyncTidewheel, Tidewheel, TidewheelError, errors

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference-sdk.md"
WIDTH = 120
NAMES = [name for name in vars(tidewheel)["__all__"] if name != "__version__"]
"""The public names."""
INTERNAL = (
    *("CorruptPack", "DelayTooLong", "PartLeased", "WrongQueue"),
    *("BundleFailed", "JavaMissing", "NodeMissing", "NotAllImported", "QueueNotPrepared", "SqsError"),
)
"""Errors that no call of a client raises: of the functions, the constructs, jobs, integrations and tests."""
_HEAD = """\
# SDK reference

All public names of `tidewheel`, from their docstrings. The guide is [sdk.md](sdk.md). `make derived` writes this page.
"""
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields|Example):(.*)$")
_HEADINGS = {"Args": ("argument", "meaning"), "Attributes": ("attribute", "meaning"), "Raises": ("raises", "when")}
_ENTRY = re.compile(r"(\*{0,2}[\w., ]+?): (.*)", re.DOTALL)


def page() -> str:
    """Returns the page."""
    public = [getattr(tidewheel, name) for name in NAMES]
    classes = [each for each in public if inspect.isclass(each)]
    clients = [each for each in classes if _is_client(each)]
    values = [each for each in public if inspect.isclass(each) and not issubclass(each, BaseException)]
    values = [each for each in [*values, *filter(_is_new_type, public)] if each not in clients]
    public_errors = [each for each in vars(errors).values() if _is_error(each) and each.__name__ not in INTERNAL]
    public_errors += [each for each in classes if issubclass(each, BaseException) and each not in public_errors]
    parts = [_HEAD]
    for title, members in (("Clients", sorted(clients, key=_rank)), ("Values", sorted(values, key=_name))):
        parts += [f"## {title}\n", *(_class(each) for each in members)]
    parts += ["## Functions\n", *(_function(each) for each in public if inspect.isfunction(each))]
    parts += ["## Errors\n", *(_error(each) for each in sorted(public_errors, key=_name))]
    return "\n".join(parts)


def _name(thing: Any) -> str:
    return str(thing.__name__)


def _is_new_type(thing: object) -> bool:
    return isinstance(thing, NewType)


def _rank(cls: type) -> tuple[bool, str]:
    """Orders the clients, `Tidewheel` first."""
    return cls is not Tidewheel, cls.__name__


def _is_client(cls: type) -> bool:
    plain = not dataclasses.is_dataclass(cls) and not issubclass(cls, (BaseException, enum.Enum, str))
    return plain and bool(list(_methods(cls)))


def _is_error(thing: object) -> bool:
    return inspect.isclass(thing) and issubclass(thing, TidewheelError)


def _class(cls: Any) -> str:
    parts = [f"### {cls.__name__}\n"]
    if _is_new_type(cls):
        return "\n".join([*parts, f"A `{cls.__supertype__.__name__}`.\n"])
    if issubclass(cls, enum.Enum):
        parts += [_documentation(cls), "".join(f'- `"{each.value}"`\n' for each in cls)]
        return "\n".join(parts)
    if cls.__init__ is not object.__init__ and not issubclass(cls, str):
        parts.append(_signature(cls.__name__, cls))
    parts.append(_documentation(cls))
    for name, method in _methods(cls):
        if isinstance(method, property):
            parts += [f"#### {name}\n", _documentation(method)]
        elif cls is not AsyncTidewheel or not hasattr(Tidewheel, name):
            parts += [f"#### {name}\n", _signature(name, method), _documentation(method)]
    return "\n".join(parts)


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Yields the public methods and properties with a docstring, in the order of the class, without constructors."""
    seen = set()
    for base in cls.__mro__:
        if base.__module__.startswith("tidewheel"):
            for name, thing in vars(base).items():
                documented = (inspect.isfunction(thing) or isinstance(thing, property)) and inspect.getdoc(thing)
                if documented and not name.startswith("_") and name not in seen:
                    seen.add(name)
                    yield name, thing


def _function(function: Callable[..., Any]) -> str:
    return "\n".join([f"### {function.__name__}\n", _signature(function.__name__, function), _documentation(function)])


def _error(error: type) -> str:
    bases = [base.__name__ for base in error.__bases__ if base is not TidewheelError and base is not Exception]
    place = "" if error.__name__ in NAMES else "In `tidewheel.errors`. "
    kind = f"Also a `{bases[0]}`. " if bases else ""
    return "\n".join([f"### {error.__name__}\n", _documentation(error, before=place + kind)])


def _signature(name: str, thing: Callable[..., Any]) -> str:
    """Returns the call as a block of code. A long call has a line for each argument."""
    found = inspect.signature(thing)
    arguments, starred = [], False
    for parameter in found.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            arguments.append("*")
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        arguments.append(_argument(parameter))
    returned = "" if inspect.isclass(thing) or found.return_annotation is found.empty else found.return_annotation
    end = f") -> {_type(returned)}" if returned else ")"
    line = f"{name}({', '.join(arguments)}{end}"
    if len(line) > WIDTH - 20:
        line = "\n".join([f"{name}(", *(f"    {each}," for each in arguments), end])
    return f"```text\n{line}\n```\n"


def _argument(parameter: inspect.Parameter) -> str:
    stars: dict[Any, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    text = f"{stars.get(parameter.kind, '')}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {_type(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        default = "..." if callable(parameter.default) or repr(parameter.default).startswith("<") else parameter.default
        text += f" = {default}" if default == "..." else f" = {default!r}"
    return text


def _type(annotation: Any) -> str:
    """Returns an annotation as the source writes it, without the metadata of `Annotated`."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    tree = ast.parse(text, mode="eval").body
    if isinstance(tree, ast.Subscript) and ast.unparse(tree.value) == "Annotated" and isinstance(tree.slice, ast.Tuple):
        return ast.unparse(tree.slice.elts[0])
    return text


def _documentation(thing: object, *, before: str = "") -> str:
    """Returns a docstring as Markdown. Its sections become tables."""
    text = inspect.cleandoc(thing.__doc__ or "")
    paragraphs = []
    for block in re.split(r"\n\n+", text):
        section = _SECTION.match(block.partition("\n")[0])
        if section is None:
            paragraphs.append(
                _wrapped(block) if not block.startswith(" ") else f"```text\n{textwrap.dedent(block)}\n```"
            )
        elif section[1] == "Example":
            paragraphs.append(f"```text\n{textwrap.dedent(block.partition(chr(10))[2])}\n```")
        else:
            paragraphs.append(_section(section[1], section[2].strip(), textwrap.dedent(block.partition("\n")[2])))
    if before:
        paragraphs[0] = _wrapped(before + paragraphs[0])
    return "\n\n".join(paragraphs) + "\n"


def _section(title: str, first: str, body: str) -> str:
    if first or title in ("Returns", "Yields"):
        return _wrapped(f"**{title}:** {first} {body}".strip())
    entries = (_entry(each) for each in re.split(r"\n(?=\S)", body))
    return "\n".join(table(_HEADINGS[title], (tuple(map(_cell, each)) for each in entries)))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _entry(text: str) -> tuple[str, str]:
    found = _ENTRY.fullmatch(text)
    return (", ".join(f"`{each}`" for each in found[1].split(", ")), found[2]) if found else ("", text)


def _wrapped(text: str) -> str:
    """Returns a paragraph in lines, with links and code in one line each."""
    whole = re.sub(r"`[^`]*`", lambda code: re.sub(r"\s+", "\0", code[0]), text)
    lines = textwrap.wrap(
        " ".join(whole.split()),
        WIDTH,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace("\0", " ")


def main(arguments: list[str] | None = None) -> int:
    """Writes the page, or compares it with the docstrings. Returns the exit code."""
    return write_or_check(PAGE, page, module="infra.sdk_reference", about=__doc__, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
