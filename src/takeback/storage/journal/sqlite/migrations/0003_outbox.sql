-- Intents that are to be delivered: a queue, made of the events about them and kept in the same transaction. What
-- only a queue needs stands here alone: who has an intent, until when, and what the receiver gave back.
CREATE TABLE outbox (
    id       INTEGER PRIMARY KEY,          -- the event that deferred it
    run      TEXT    NOT NULL,
    state    TEXT    NOT NULL,
    ord      TEXT,                         -- the ordering key
    released INTEGER NOT NULL DEFAULT 0,   -- the event that released it
    due_us   INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    unsure   INTEGER NOT NULL DEFAULT 0,   -- an attempt had no answer
    changed_us INTEGER NOT NULL,           -- when the last event about it was written
    fence    INTEGER NOT NULL DEFAULT 0,   -- rises with each claim
    owner    TEXT    NOT NULL DEFAULT '',
    boot     TEXT    NOT NULL DEFAULT '',  -- the boot whose clock the lease is told by
    lease_us INTEGER NOT NULL DEFAULT 0,
    started  INTEGER NOT NULL DEFAULT 0,   -- an attempt has begun
    result   BLOB
);

CREATE INDEX outbox_by_state ON outbox (state, id);
CREATE INDEX outbox_due ON outbox (due_us, id) WHERE state = 'due';
CREATE INDEX outbox_in_order ON outbox (ord, released, id) WHERE ord IS NOT NULL AND state IN ('queued', 'due', 'claimed');
CREATE INDEX outbox_of_run ON outbox (run, id);

-- The events about attempts that failed, to be found by their intent.
CREATE TABLE outbox_attempts (
    seq    INTEGER PRIMARY KEY,
    intent INTEGER NOT NULL
);

CREATE INDEX outbox_attempts_of ON outbox_attempts (intent, seq);
