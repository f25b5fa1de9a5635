"""Adapters for agent frameworks: each imports its framework when it is first used, and not before.

from takeback.frameworks.langgraph import TakebackSaver
"""
