-- One row for each workspace: where its journal ends. Whoever appends moves this row first, so it is what puts the
-- writers of a workspace in order, and its count has no gaps.
CREATE TABLE takeback_store.workspaces (
    id     integer     PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name   text        NOT NULL UNIQUE,
    count  bigint      NOT NULL DEFAULT 0,
    digest text        NOT NULL DEFAULT '',
    made   timestamptz NOT NULL DEFAULT clock_timestamp(),
    waited timestamptz NOT NULL DEFAULT '-infinity'  -- until when somebody waits to be told of the next event
) WITH (fillfactor = 50);

-- body is exactly what was sealed, and digest names those bytes. The other columns repeat what the body says, to be
-- found by; part is the place in its append.
CREATE TABLE takeback_store.events (
    workspace integer NOT NULL REFERENCES takeback_store.workspaces,
    seq       bigint  NOT NULL,
    stream    text    NOT NULL,
    n         bigint  NOT NULL,
    key       text,
    part      integer NOT NULL,
    digest    text    NOT NULL,
    body      bytea   NOT NULL,
    PRIMARY KEY (workspace, seq),
    UNIQUE (workspace, stream, n)
);

CREATE UNIQUE INDEX events_by_key ON takeback_store.events (workspace, key, part) WHERE key IS NOT NULL;
