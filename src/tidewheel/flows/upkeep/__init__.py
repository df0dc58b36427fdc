"""Upkeep: sweeps, merges, checkpoints, and the deletion of unused objects."""
