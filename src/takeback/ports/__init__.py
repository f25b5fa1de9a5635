"""What the engine needs from the outside, in sentences that every implementation keeps.

The contract of each port is a public test suite in `takeback.testing`; the in-memory implementation passes the
same suite as the durable ones.
"""
