"""Runs: one attempt of an agent at a task, with its steps, actions, calls and memory."""
