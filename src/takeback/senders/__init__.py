"""The built-in senders of the outbox: HTTP requests, webhooks, mail and commands."""
