"""The same scenarios on the local stack and on an AWS account.

`pytest tests/e2e` rehearses; `make aws-smoke` deploys to the account that is logged in and removes everything again.

    test_ordinary, test_jobs, test_trouble   the scenarios        test_suite   the tests of the suite itself
    stage      one scenario at work, and its oracle               cloud        where it runs: a port
    conftest   options, consent, removal, verdict                 local, account   its two implementations
    removal    removes a stack and all that bears its name        usage        what it used, and the price
"""
