"""The journal in a PostgreSQL database that several machines share."""
