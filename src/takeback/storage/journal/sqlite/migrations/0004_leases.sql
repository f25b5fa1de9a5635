-- Leases are no events: they say who may do something now, and nothing of what happened. A row goes when its lease ends;
-- the number does not come again.
CREATE TABLE leases (
    fence    INTEGER PRIMARY KEY AUTOINCREMENT,
    name     TEXT    NOT NULL,
    holder   BLOB    NOT NULL,             -- JSON
    since_us INTEGER NOT NULL,
    ttl_us   INTEGER NOT NULL,
    boot     TEXT    NOT NULL,             -- the boot whose clock until_us is told by
    until_us INTEGER NOT NULL
);

-- Who waits for what, so that those are found who wait for each other.
CREATE TABLE lease_waits (
    token    TEXT    PRIMARY KEY,
    name     TEXT    NOT NULL,
    holder   BLOB    NOT NULL,
    family   BLOB    NOT NULL,
    boot     TEXT    NOT NULL,
    until_us INTEGER NOT NULL
) WITHOUT ROWID;
