"""Sweeps, merges, checkpoints, and the deletion of unused objects."""
