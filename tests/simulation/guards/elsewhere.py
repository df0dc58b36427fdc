"""Guards whose loss no small world shows: they save work or time, and a contract suite alone holds them."""

from __future__ import annotations

from tests.simulation.mutant import Change
from tidewheel.memory import MemoryTopics as T
from tidewheel.memory.administration import MemoryAdministration as A
from tidewheel.memory.items import MemoryItems
from tidewheel.memory.keys import MemoryKeys as K

CHANGES = (
    Change(
        guard="daily work is done once a day",
        function=T.claim_daily,
        changes=(("if at_ms > now_ms:", "if False:"),),
    ),
    Change(
        guard="a run whose lease has ended does not release another's",
        function=T.release_merge,
        changes=(("if self._of(topic).merging_until_ms == until_ms:", "if True:"),),
    ),
    Change(
        guard="a merge that was considered on an old sight is not noted",
        function=T.merge_considered,
        changes=((" or (current.work_version, current.next_slot) != (state.work_version, state.next_slot)", ""),),
    ),
    Change(
        guard="the next collection is not set on an old sight",
        function=T.set_collect_at,
        changes=((" or (current.work_version, current.next_slot) != (state.work_version, state.next_slot)", ""),),
    ),
    Change(
        guard="a deletion makes every condition that names the topic's generation fail",
        function=A.mark_deleting,
        changes=(("generation=generation, ", ""),),
    ),
    Change(
        guard="a deletion seals every slot",
        function=A.mark_deleting,
        changes=(("sealed=ALL_SEALED, ", ""),),
    ),
    Change(
        guard="a new topic is not forgotten for a deleted one",
        function=A.forget_topic,
        changes=(("if self._same(state) is None:", "if False:"),),
    ),
    Change(
        guard="a topic that is being deleted is not there",
        function=T.state,
        changes=((" or found.deleting_at_ms is not None", ""),),
    ),
    Change(
        guard="a topic of a newer layout is not changed",
        function=MemoryItems._same,
        changes=((" or current.layout > LAYOUT", ""),),
    ),
    Change(
        guard="a message of a topic of a newer layout is not cancelled",
        function=K._open,
        changes=(("and state.layout <= LAYOUT", ""),),
    ),
    Change(
        guard="a part of which the park is there already is parked once",
        function=T.spill_part,
        changes=(("if park.key in items.parks:", "if False:"),),
    ),
)
