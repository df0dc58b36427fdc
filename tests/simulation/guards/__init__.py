"""The guards of the protocol: small worlds, and what breaks in each when a guard is taken away."""
