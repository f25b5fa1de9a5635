"""The journal: append-only, hash-chained events, with its outbox and leases; one folder for each backend."""
