"""Help for tests of Takeback and of programs built on it: contract suites, real crashes, a manual clock.

The contract suites need pytest; nothing else here does.
"""
