"""What the outbox can send by itself: HTTP requests, webhooks, mail and commands."""
