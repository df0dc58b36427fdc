"""Moves due messages on with EventBridge Pipes: to a FIFO queue, and to a partner's HTTPS endpoint."""

# region stack
from tidewheel.cdk import Environment, TidewheelService

# isort: split
from aws_cdk import App, SecretValue, Stack
from aws_cdk import aws_events as events
from constructs import Construct


class ShippingStack(Stack):
    """One parcel of a customer at a time, and a call of the partner for each refund."""

    def __init__(self, scope: Construct, id_: str) -> None:
        """Make the service, a topic, and a subscription for each pipe."""
        super().__init__(scope, id_)
        service = TidewheelService(self, "Shipping", service_name="shipping", environment=Environment.production())
        parcels = service.add_topic("parcels")

        to_fifo = parcels.add_subscription("packing", carry="id").pipe_to()
        assert to_fifo.queue is not None
        self.packing_queue = to_fifo.queue

        key = events.Authorization.api_key("X-Api-Key", SecretValue.secrets_manager("partner"))
        partner = events.ApiDestination(
            self,
            "Partner",
            connection=events.Connection(self, "Connection", authorization=key),
            endpoint="https://partner.example.com/refunds",
            rate_limit_per_second=50,
        )
        refunds = parcels.add_subscription("refunds", carry="id", filter_policy={"kind": ["refund"]})
        refunds.pipe_to(api_destination=partner, id_header="Idempotency-Key", input_template="<$.body>")


if __name__ == "__main__":
    app = App()
    ShippingStack(app, "shipping")
    app.synth()
# endregion
