"""Notes the pieces of a part that could not be read. The sweep has them tried again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidewheel.errors import CorruptLedger, ObjectMissing, ObjectRefused
from tidewheel.flows.delivery.due_rows import UnreadSegment
from tidewheel.model import marks
from tidewheel.model.plan import Piece
from tidewheel.model.subscription_state import Unread

_MOST_NAMES = 1500
"""Objects that the notes of all parts in an item of a delivery name. An item has at most 400 KB."""


def unread_of(pieces: Mapping[int, Piece], of: int, errors: Mapping[Piece, Exception], parts: int) -> Unread:
    """Returns the note of unread pieces, given by their numbers in the part. The part has `of` pieces in all.

    The delivery has so many `parts`. A note that cannot name all objects in its share of an item has no rows and holds
    collections.
    """
    rows = sum(
        max(1, each.planned.due_rows * (each.end_row - each.first_row) // each.planned.segment.rows)
        for each in pieces.values()
    )
    names = sorted({each.planned.object_name for each in pieces.values()})
    named = names[: _MOST_NAMES // marks.most_in_an_item(parts)]
    numbers = () if len(pieces) == of else tuple(sorted(pieces))
    lost = any(is_of_object(errors[each]) for each in pieces.values())
    return Unread(numbers, tuple(named), rows if named == names else 0, lost)


def notes_of(parts: Sequence[Sequence[Piece]], unread: Sequence[UnreadSegment], of: int) -> dict[int, Unread]:
    """Returns the notes of parts with unread pieces. The delivery has `of` parts in all."""
    errors = {piece: each.error for each in unread for piece in each.pieces}
    left = (({n: piece for n, piece in enumerate(own) if piece in errors}, len(own)) for own in parts)
    return {part: unread_of(pieces, count, errors, of) for part, (pieces, count) in enumerate(left) if pieces}


def is_of_object(error: Exception) -> bool:
    """Returns whether an error is an object's own: it is lost, or S3 refuses it. All others may pass."""
    return isinstance(error, CorruptLedger | ObjectMissing | ObjectRefused)


def lost_objects(left: Unread) -> tuple[str, ...]:
    """Returns the objects of a note that are lost or refused."""
    return left.objects if left.lost else ()
