-- A workspace sits in one folder of one machine at a time. `seat` is the fence of whoever sits there; it is checked
-- and renewed by the same statement that appends. Who sat where is kept; a row is never changed.
ALTER TABLE takeback_store.workspaces
    ADD COLUMN seat bigint NOT NULL DEFAULT 0,       -- 0: nobody has sat down yet
    ADD COLUMN seat_us bigint NOT NULL DEFAULT 0,    -- for how long, unless it is renewed
    ADD COLUMN seat_until timestamptz NOT NULL DEFAULT '-infinity';

CREATE TABLE takeback_store.seats (
    workspace integer NOT NULL REFERENCES takeback_store.workspaces,
    fence     bigint  NOT NULL,
    place     bytea   NOT NULL,  -- JSON
    since_us  bigint  NOT NULL,
    PRIMARY KEY (workspace, fence)
);
