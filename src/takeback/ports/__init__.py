"""What the engine needs from the outside, in sentences that every implementation keeps.

For the journal, blobs, leases, the outbox and moving a store, the contract is also a public test suite in
`takeback.testing`, which the in-memory implementation passes like the durable ones. The other
ports have no such suite.
"""
