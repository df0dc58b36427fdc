"""Ledgers in Spark: for merging, rebuilding and importing what is too large for one function."""
