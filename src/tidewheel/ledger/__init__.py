"""The ledger: its file format and the metadata of one file."""
