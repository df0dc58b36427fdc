"""Measures each hot path beside its bare floor, in the same run."""
