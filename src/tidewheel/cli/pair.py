"""Reads a topic and its subscription, orders billing, orders/billing or orders:billing, and names options in errors."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperOption

from tidewheel.errors import InvalidValue

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
