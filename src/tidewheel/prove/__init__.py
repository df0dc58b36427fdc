"""Proves a deployed stack in ten minutes: `tidewheel prove`.

trial   messages through topics of its own, a lost schedule, and the clean-up
model   the same messages by the model of `tidewheel.cost`, beside what AWS counts and logs
proof   runs a trial, and judges it
"""
