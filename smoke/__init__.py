"""A smoke test of a deployed service: it deploys one, uses all of it, measures, and removes it again.

`python -m smoke` does so in the caller's AWS account, `python -m smoke --local` rehearses it on the emulated AWS.

    command    asks for consent, shows the report
    trial      deploy, scenario, checks, removal: in this order, whatever happens
    scenario   the acts: what is sent, cancelled, paused, broken, merged, rebuilt
    record     what was sent and what arrived      verdict   what that proves
    cloud      where it runs: a port               aws_cloud, local_cloud: its two implementations
    removal    what a trial leaves, taken away     report    the result as lines and as JSON
"""
