"""The rules, as pure code: no input or output, no clock, no randomness."""
