"""A seeded sample of mutants of the model, the ledger and the flows."""
