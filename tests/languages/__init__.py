"""The programs of `examples/languages`, run against the local stack."""
