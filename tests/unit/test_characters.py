"""Tests the characters allowed by SQS, which are the characters of XML 1.0."""

from __future__ import annotations

import sys

import pytest

from tidewheel.errors import InvalidValue
from tidewheel.model.validation import check_characters


def taken(character: str) -> bool:
    """Whether SQS accepts a character, #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF."""
    number = ord(character)
    return number in (0x9, 0xA, 0xD) or 0x20 <= number <= 0xD7FF or 0xE000 <= number <= 0xFFFD or number >= 0x10000


EDGES = [0x80, 0x9F, 0xA0, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x1FFFE, sys.maxunicode]


@pytest.mark.parametrize("around", ["{}", "{} text", "text {}", "te{}xt", "n\u00e4{}he", "\U0001f600{}"])
def test_a_text_is_taken_if_sqs_takes_each_of_its_characters(around: str) -> None:
    for character in map(chr, [*range(128), *EDGES]):
        text = around.format(character)
        if taken(character):
            check_characters("body", text)
        else:
            with pytest.raises(InvalidValue, match=f"U.{ord(character):04X} at position {text.index(character)}"):
                check_characters("body", text)
