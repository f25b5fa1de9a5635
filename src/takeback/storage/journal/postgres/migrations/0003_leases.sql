-- Leases are no events: they say who may do something now, and nothing of what happened. A row goes when its lease ends;
-- the number does not come again. They run out by the clock of the server.
ALTER TABLE takeback_store.workspaces ADD COLUMN fence bigint NOT NULL DEFAULT 0;  -- of the last lease

CREATE TABLE takeback_store.leases (
    workspace integer     NOT NULL REFERENCES takeback_store.workspaces,
    fence     bigint      NOT NULL,
    name      text        NOT NULL,
    holder    bytea       NOT NULL,  -- JSON
    since_us  bigint      NOT NULL,
    ttl_us    bigint      NOT NULL,
    until     timestamptz NOT NULL,
    PRIMARY KEY (workspace, fence)
);

-- Who waits for what, so that those are found who wait for each other.
CREATE TABLE takeback_store.lease_waits (
    workspace integer     NOT NULL REFERENCES takeback_store.workspaces,
    token     text        NOT NULL,
    name      text        NOT NULL,
    holder    bytea       NOT NULL,
    family    bytea       NOT NULL,
    until     timestamptz NOT NULL,
    PRIMARY KEY (workspace, token)
);
