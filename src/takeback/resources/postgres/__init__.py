"""PostgreSQL: change capture inside the server, and its inverse."""
