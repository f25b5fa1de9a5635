"""The outbox: effects that are held until their run commits, then delivered by a worker."""
