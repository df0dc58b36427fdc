"""The CDK app of Tidewheel: one construct per capability, composed in `service_stack`.

`import aws_cdk` starts Node. `tidewheel.cdk` looks for Node first, so it is imported before any module of this package.
"""

import tidewheel.cdk  # noqa: F401
