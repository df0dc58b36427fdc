"""Gives commands an option for each setting that a class declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Annotated, Any

import typer

from tidewheel.model.setting import Declared, settings_of
from tidewheel.model.settings import read_setting


def takes_settings(cls: type, *, fixed: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options. The command gets the user's values as the argument `settings`.

    Args:
        cls: the class that declares the settings.
        fixed: whether the command takes settings that cannot change after the creation.
    """
    declared = {name: each for name, each in settings_of(cls).items() if fixed or not each.setting.fixed}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**arguments: Any) -> None:
            texts = {name: arguments.pop(name) for name in declared}
            settings = {name: read_setting(declared[name], text) for name, text in texts.items() if text is not None}
            command(**arguments, settings=settings)

        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.name != "settings"]
        run.__signature__ = signature.replace(parameters=[*own, *_options(declared.values())])  # type: ignore[attr-defined]
        return run

    return decorate


def _options(declared: Iterable[Declared]) -> Iterable[inspect.Parameter]:
    for each in declared:
        option = typer.Option(metavar="NUMBER" if each.kind is int else "TEXT", help=_help(each), show_default=False)
        yield inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, option]
        )


def _help(declared: Declared) -> str:
    default = f"none: {declared.setting.none}" if declared.default is None else declared.default
    facts = [declared.values, f"default {default} {declared.setting.unit if declared.default else ''}".rstrip()]
    return f"{declared.setting.meaning} ({'; '.join(fact for fact in facts if fact)})"
