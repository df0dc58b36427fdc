"""Declares settings, each with a type, a default, a unit, a range and one sentence.

A class of settings is a frozen dataclass. Each field says all about one setting:

    slot_s: Annotated[int, Setting("Length of a slot.", unit="s")] = 300

The checks, the help of the command line and `docs/settings.md` derive from the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, MISSING, Field, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tidewheel.errors import InvalidValue
from tidewheel.model.untrusted import is_whole


@dataclass(frozen=True, slots=True)
class Setting:
    """Describes a setting beside the type and the default.

    Attributes:
        meaning: one sentence, sometimes with a second sentence for a reason.
        unit: the unit of a number.
        least: the minimum of a number.
        most: the maximum of a number. None: no maximum.
        choices: all possible values of a text. Empty: any text except the empty text.
        none: the meaning of None.
        fixed: whether the value cannot change after the creation.
    """

    meaning: str
    _: KW_ONLY
    unit: str = ""
    least: int = 1
    most: int | None = None
    choices: tuple[str, ...] = ()
    none: str = "none"
    fixed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A setting, as declared by a class of settings.

    Attributes:
        kind: the type of the values, without None.
        optional: whether None is a value.
        default: `dataclasses.MISSING` if the setting has no default.
    """

    name: str
    kind: Any
    optional: bool
    default: Any
    setting: Setting

    @property
    def required(self) -> bool:
        """Whether the setting has no default."""
        return self.default is MISSING

    @property
    def choices(self) -> tuple[str, ...]:
        """All possible values of a text. Empty: any text."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else self.setting.choices

    @property
    def values(self) -> str:
        """The range of a number or the choices of a text, as words. Empty for all other types."""
        if self.kind is int:
            least, most = self.setting.least, self.setting.most
            return f"at least {least:,}" if most is None else f"{least:,} to {most:,}"
        return ", ".join(self.choices)

    def check(self, value: object) -> None:
        """Raises InvalidValue if the setting cannot have a value."""
        if not (value is None and self.optional) and not self._possible(value):
            raise InvalidValue(self.name, value, self._advice + (", or None" if self.optional else ""))

    def _possible(self, value: object) -> bool:
        if self.kind is int:
            most = self.setting.most
            return is_whole(value) and self.setting.least <= value and (most is None or value <= most)
        if self.choices:
            return value in self.choices
        if self.kind is str:
            return isinstance(value, str) and value != ""
        if self.kind == tuple[str, ...]:  # a str is a sequence of str too
            return isinstance(value, tuple) and all(isinstance(each, str) for each in value)
        return isinstance(value, self._container)

    @property
    def _advice(self) -> str:
        """How to correct an impossible value."""
        if self.kind is int:
            return f"give a whole number, {self.values}"
        if self.choices:
            return f"give one of: {self.values}"
        known = {str: "give a text that is not empty", tuple[str, ...]: "give a tuple of texts, such as ('orders',)"}
        return known.get(self.kind) or f"give a value of the type {self._container.__name__}"

    @property
    def _container(self) -> type:
        return get_origin(self.kind) or self.kind  # type: ignore[no-any-return]  # a class, with or without parameters


def settings_of(cls: type) -> Mapping[str, Declared]:
    """Returns the settings that a class declares, by name, in the order of the fields."""
    return _settings_of(cls)


# Apart, since mypy takes no class of settings for the Hashable that a cached function wants.
@cache
def _settings_of(cls: type) -> Mapping[str, Declared]:
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: _declared(field, hints[field.name]) for field in fields(cls)}


def check_settings(settings: object) -> None:
    """Checks the type and the range of each setting of an object.

    Raises:
        InvalidValue: a setting has an impossible value.
    """
    for name, declared in settings_of(type(settings)).items():
        declared.check(getattr(settings, name))


def check_names(cls: type, given: Mapping[str, object], owner: str) -> None:
    """Raises InvalidValue if a name is not a setting of the class.

    Args:
        owner: the object that has the settings, for the error, such as "a topic".
    """
    known = settings_of(cls)
    for name, value in given.items():
        if name not in known:
            raise InvalidValue(name, value, f"{owner} has no such setting; give one of: {', '.join(known)}")


def _declared(field: Field[Any], hint: Any) -> Declared:
    declared, setting = get_args(hint)
    kinds = get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,)
    [kind] = (each for each in kinds if each is not NoneType)
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return Declared(name=field.name, kind=kind, optional=NoneType in kinds, default=default, setting=setting)
