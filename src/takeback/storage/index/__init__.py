"""The index of a history: derived from the journal, kept beside it, and made again whenever it does not fit."""
