"""CDK constructs for stacks that use Tidewheel; they need `pip install 'tidewheel[cdk]'`."""

from tidewheel.cdk.subscriber_queue import SubscriberQueue, grant_deliveries

__all__ = ["SubscriberQueue", "grant_deliveries"]
