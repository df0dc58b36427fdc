"""CDK constructs for stacks that use Tidewheel; they need `pip install 'tidewheel[cdk]'`."""

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
