"""Gives commands an option for each setting that a class declares, and a topic with its subscription as one word."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from tidewheel.errors import InvalidValue
from tidewheel.model.setting import Declared, settings_of
from tidewheel.model.settings import read_setting

_NAMES = (["topic", "subscription"], ["topic", "name"])


class Command(TyperCommand):
    """A command that takes the names of a topic and its subscription as one word, too.

    An error of the SDK names its arguments. If the command has an option of the name, the error names the option.
    """

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except InvalidValue as error:
            options = {each.name: max(each.opts, key=len) for each in self.params if isinstance(each, TyperOption)}
            if error.field not in options:
                raise
            raise InvalidValue(options[error.field], error.value, error.advice) from error

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Divides the first word that is no option, if the command's first arguments are a pair."""
        names = [each.name for each in self.params if isinstance(each, TyperArgument)]
        valued = {
            name for each in self.params if isinstance(each, TyperOption) and not each.is_flag for name in each.opts
        }
        for at, word in enumerate(args if names[:2] in _NAMES else ()):
            if not word.startswith("-") and (at == 0 or args[at - 1] not in valued):
                args = [*args[:at], *pair(word), *args[at + 1 :]]
                break
        return super().parse_args(ctx, args)


def pair(text: str) -> list[str]:
    """Returns the names of a topic and its subscription, or the one name that the text is."""
    return re.split("[:/ ]", text, maxsplit=1)


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
