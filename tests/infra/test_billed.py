"""The bill of an environment counts the resources in the template."""

from __future__ import annotations

import pytest

from tests.infra.conftest import StackTemplate
from tests.infra.variants import template_of
from tidewheel.cost.bill import ENVIRONMENTS
from tidewheel.cost.figures import ASSUMED, FUNCTIONS


@pytest.mark.parametrize("name", ["development", "production"])
def test_an_environment_is_billed_for_the_resources_of_its_template(name: str) -> None:
    deployed, stack = ENVIRONMENTS[name], StackTemplate(template_of(name))
    alarms = stack.of_type("AWS::CloudWatch::Alarm").values()
    metrics = (sum("MetricStat" in m for m in each["Metrics"]) if "Metrics" in each else 1 for each in alarms)
    assert deployed.alarms == sum(metrics)
    mappings = stack.of_type("AWS::Lambda::EventSourceMapping").values()
    assert deployed.polled_queues == len(mappings)
    assert deployed.pollers == ASSUMED["pollers" if "ScalingConfig" in str(mappings) else "least_pollers"]
    for kind in ("AWS::CloudWatch::Dashboard", "AWS::KMS::Key"):
        assert not stack.of_type(kind)
    functions = stack.functions()
    assert not any(each.get("TracingConfig", {}).get("Mode") == "Active" for each in functions.values())
    memory = {function: each["MemorySize"] for function, each in functions.items()}
    assert memory == {function: its["memory_mib"] for function, its in FUNCTIONS.items()}
