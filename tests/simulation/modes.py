"""The modes of a run, by what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass

from tidewheel.model.settings import Claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """How likely a call is to go wrong, each as a probability.

    Attributes:
        fails_before, fails_after: the call raises; it took no effect, or it did.
        dies_before, dies_after: the function dies likewise.
        throttled: the call is refused, as often as the adapter tries: what it raises then.
        half_sent: of a batch for a queue, each message is not taken for now.
    """

    fails_before: float = 0.0
    fails_after: float = 0.0
    dies_before: float = 0.0
    dies_after: float = 0.0
    throttled: float = 0.0
    half_sent: float = 0.0

    @property
    def none(self) -> bool:
        """Whether nothing goes wrong."""
        return self == NO_FAULTS


NO_FAULTS = Odds()
FAULTS = Odds(fails_before=0.01, fails_after=0.01, dies_before=0.005, dies_after=0.005, throttled=0.005, half_sent=0.02)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """The faults of a run.

    Attributes:
        odds: how likely single calls go wrong.
        unreliable: whether triggers come late, twice or never, and functions are killed.
        lasting: whether AWS refuses the same calls for minutes or hours.
        family: what lasts then; None: the seed decides.
        timed: whether calls take time.
        claims: which messages consumers claim.
    """

    odds: Odds = NO_FAULTS
    unreliable: bool = False
    lasting: bool = False
    family: str | None = None
    timed: bool = False
    claims: Claims = "none"


MODES = {
    "calm": Mode(),
    "late": Mode(unreliable=True),
    "faults": Mode(odds=FAULTS, unreliable=True),
    "half_well": Mode(lasting=True),
    "timed": Mode(timed=True),
    "timed_faults": Mode(odds=FAULTS, unreliable=True, timed=True),
    "timed_half_well": Mode(lasting=True, timed=True),
    "claims": Mode(odds=FAULTS, unreliable=True, claims="all"),
    "claims_calm": Mode(claims="all"),
    "claims_half_well": Mode(lasting=True, claims="all"),
    "claims_timed": Mode(odds=FAULTS, unreliable=True, timed=True, claims="all"),
    "keyed": Mode(odds=FAULTS, unreliable=True, claims="keyed"),
    "keyed_timed": Mode(odds=FAULTS, unreliable=True, timed=True, claims="keyed"),
}
