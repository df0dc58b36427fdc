"""The topic whose index is made anew from its ledgers, while messages wait in them."""

from __future__ import annotations

from typing import Literal

from smoke.stage import Stage
from tidewheel.aws.service import Service
from tidewheel.flows.audit import audit
from tidewheel.flows.rebuild import rebuild
from tidewheel.flows.rebuild_engine import InProcess
from tidewheel.message import Message
from tidewheel.rebuild_report import RebuildReport
from tidewheel.settings import MAX_FUNCTION_S, ServiceSettings, parameter_name

RebuildOn = Literal["here", "glue", "nowhere"]
TOPIC = "rebuilt"
READER = "reader"
MESSAGES = 30
_INGEST_S = 60
_LEASE_S = 1_800
"""Longer than this run can live."""
_DELAY_S = 16 * 60
"""A rebuild waits 300 s for functions that are under way, and a Glue job needs two minutes to start."""


class Rebuilding:
    """Everything that is done with this topic, in order: `prepare`, `send`, `rebuild`."""

    def __init__(self, stage: Stage, where: RebuildOn) -> None:
        self._stage = stage
        self._where = where

    def prepare(self) -> None:
        """Makes the topic."""
        if self._where != "nowhere":
            self._stage.topic(TOPIC)
            self._stage.subscribe(TOPIC, READER, late=True)

    def send(self) -> None:
        """Sends what waits in a ledger during the rebuild."""
        if self._where == "nowhere":
            return
        stage = self._stage
        messages = [Message(body=f"rebuilt {i}", delay=_DELAY_S + 3 * i) for i in range(MESSAGES)]
        for message, receipt in zip(messages, stage.tw.send_many(TOPIC, messages), strict=True):
            stage.record.sent(receipt, message.body, readers=(READER,), group=None)
        there = stage.until(lambda: stage.tw.stats(TOPIC).waiting >= MESSAGES, within_s=_INGEST_S)
        stage.check("messages are in a ledger within a minute", there, f"{stage.tw.stats(TOPIC).waiting} of {MESSAGES}")

    def rebuild(self) -> None:
        """Compares the index with the ledgers, replaces it, and compares again."""
        if self._where == "nowhere":
            return
        stage, service = self._stage, self._service()
        before = self._audit(service)
        stage.check("a dry run finds that table and ledgers agree", before.agrees, _said(before))
        self._replace(service)
        after = self._audit(service)
        whole = after.agrees and after.rows >= MESSAGES
        stage.check("a rebuilt index agrees with the ledgers", whole, _said(after))

    def _replace(self, service: Service) -> None:
        stage = self._stage
        if self._where == "glue":
            stage.tell("rebuilding on Glue")
            stage.cloud.rebuild_on_glue(TOPIC, dry_run=True)
            stage.cloud.rebuild_on_glue(TOPIC, dry_run=False)
            return
        stage.tell(f"rebuilding here; it waits {MAX_FUNCTION_S} s for functions that are under way")

        def settle() -> None:
            stage.cloud.sleep(MAX_FUNCTION_S)

        engine = InProcess(objects=service.objects)
        rebuild(service, TOPIC, engine, lease_s=_LEASE_S, replace_index=True, settle=settle, say=stage.tell)

    def _audit(self, service: Service) -> RebuildReport:
        return audit(service, TOPIC, InProcess(objects=service.objects))

    def _service(self) -> Service:
        """Returns the ports with the caller's own permissions."""
        cloud = self._stage.cloud
        name = parameter_name(cloud.stack_name)
        text = cloud.session.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
        return Service.of(ServiceSettings.from_json(text, name), cloud.session, cloud.clock)


def _said(report: RebuildReport) -> str:
    return f"{report.live} ledgers with {report.rows} messages"
