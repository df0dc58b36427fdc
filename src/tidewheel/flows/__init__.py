"""What Tidewheel does: one file a verb. Ports in, decisions out; no I/O of its own and no AWS."""
