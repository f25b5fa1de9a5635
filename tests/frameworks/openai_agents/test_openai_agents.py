"""OpenAI Agents: the contract of adapters, and what only this framework has."""

from __future__ import annotations

from tests.frameworks.contract import AdapterContract


class TestOpenAIAgents(AdapterContract):
    framework = "openai_agents"
