-- The idempotency key of a batch, to be found by. A body that is no JSON is left for `verify` to name.
ALTER TABLE events ADD COLUMN key TEXT;

UPDATE events SET key = json_extract(CAST(body AS TEXT), '$.key') WHERE json_valid(CAST(body AS TEXT));

CREATE INDEX events_by_key ON events (key) WHERE key IS NOT NULL;
