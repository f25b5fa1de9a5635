-- Intents that are to be delivered: a queue, made of the events about them and kept in the same transaction. What
-- only a queue needs stands here alone: who has an intent, until when, and what the receiver gave back. Leases are
-- told by the clock of the server.
CREATE TABLE takeback_store.outbox (
    workspace  integer NOT NULL,
    id         bigint  NOT NULL,                -- the event that deferred it
    run        text    NOT NULL,
    state      text    NOT NULL,
    ord        text,                            -- the ordering key
    released   bigint  NOT NULL DEFAULT 0,      -- the event that released it
    due_us     bigint  NOT NULL DEFAULT 0,
    attempts   integer NOT NULL DEFAULT 0,
    unsure     boolean NOT NULL DEFAULT false,  -- an attempt had no answer
    changed_us bigint  NOT NULL,                -- when the last event about it was written
    fence      bigint  NOT NULL DEFAULT 0,      -- rises with each claim
    owner      text    NOT NULL DEFAULT '',
    lease      timestamptz NOT NULL DEFAULT '-infinity',
    started    boolean NOT NULL DEFAULT false,  -- an attempt has begun
    result     bytea,
    PRIMARY KEY (workspace, id),
    FOREIGN KEY (workspace, id) REFERENCES takeback_store.events (workspace, seq)
) WITH (fillfactor = 70);

CREATE INDEX outbox_by_state ON takeback_store.outbox (workspace, state, id);
CREATE INDEX outbox_due ON takeback_store.outbox (workspace, due_us, id) WHERE state = 'due';
CREATE INDEX outbox_in_order ON takeback_store.outbox (workspace, ord, released, id)
    WHERE ord IS NOT NULL AND state IN ('queued', 'due', 'claimed');
CREATE INDEX outbox_of_run ON takeback_store.outbox (workspace, run, id);

-- The events about attempts that failed, to be found by their intent.
CREATE TABLE takeback_store.outbox_attempts (
    workspace integer NOT NULL,
    intent    bigint  NOT NULL,
    seq       bigint  NOT NULL,
    PRIMARY KEY (workspace, intent, seq)
);
