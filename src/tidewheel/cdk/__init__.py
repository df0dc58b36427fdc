"""CDK constructs for stacks that use Tidewheel. The constructs need `pip install 'tidewheel[cdk]'` and Node."""

from tidewheel.cdk.node import use_available_node
from tidewheel.errors import needs_extra

with needs_extra(__name__, "cdk"):
    import jsii  # noqa: F401

    use_available_node()

    from tidewheel.cdk.environment import Environment
    from tidewheel.cdk.sdk_layer import SdkLayer
    from tidewheel.cdk.service import TidewheelService
    from tidewheel.cdk.subscriber_queue import SubscriberQueue, grant_deliveries
    from tidewheel.cdk.topics import Subscription, Topic

__all__ = [
    "Environment",
    "SdkLayer",
    "SubscriberQueue",
    "Subscription",
    "TidewheelService",
    "Topic",
    "grant_deliveries",
]
