"""Defines the CDK app of Tidewheel. `service_stack` composes a construct for each capability.

`import aws_cdk` starts Node. `tidewheel.cdk` looks for Node first, so it is imported before any module of this package.
"""

import tidewheel.cdk  # noqa: F401
