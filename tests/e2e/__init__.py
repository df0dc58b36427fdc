"""The deployed main road, on the local stack and on an AWS account.

`pytest tests/e2e` rehearses; `make aws-smoke` deploys to the account that is logged in and removes everything again.

    test_main_road    the scenarios                              test_suite   the tests of the suite itself
    stage      a scenario's client, listeners and oracle         cloud        where it runs: a port
    conftest   options, consent, removal                         local, account   its two implementations
    removal    removes a stack and all that bears its name
"""
