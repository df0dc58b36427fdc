"""Soak: the real flows over the ports in memory, for virtual weeks and in great numbers, held to what is promised.

    python -m benchmarks.soak [--small] [--only steady,burst,...] [--save]

Each scenario is a module: `steady`, `burst`, `backlog`, `fan_out`, `outage`. `stack` is the service with its triggers,
`watch` sees what its functions ask of their ports, `account` knows what must come and what came, `growth` measures what
lives, `outcome` is what a scenario says.
"""
