"""The CDK app of Tidewheel: one construct per capability, composed in `service_stack`.

Importing aws_cdk starts node, so node is looked for here, before any module of this package needs it.
"""

from infra.node import use_available_node

use_available_node()
