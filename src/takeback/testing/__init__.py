"""For tests of Takeback and of what is built on it: contract suites, real crashes, a clock that stands still.

The contract suites need pytest; nothing else here does.
"""
