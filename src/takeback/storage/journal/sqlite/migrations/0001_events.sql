-- body is exactly what was sealed, and digest names those bytes. The other columns repeat what the body says,
-- to be found by.
CREATE TABLE events (
    seq    INTEGER PRIMARY KEY,
    stream TEXT    NOT NULL,
    n      INTEGER NOT NULL,
    digest TEXT    NOT NULL,
    body   BLOB    NOT NULL,
    UNIQUE (stream, n)
);
