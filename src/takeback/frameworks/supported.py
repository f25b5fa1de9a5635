"""The versions of each framework that its adapter works with, and a clear error for all others."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module, metadata
from typing import NamedTuple

from takeback.errors import UsageError


class Supported(NamedTuple):
    """The versions of one package that work: from the first one on, up to and without the second."""

    package: str
    first: tuple[int, ...]
    below: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.package}>={'.'.join(map(str, self.first))},<{'.'.join(map(str, self.below))}"


# The extras of pyproject.toml name the same versions.
AGENT_FRAMEWORK = (Supported("agent-framework-core", (1, 23), (2,)),)
CREWAI = (Supported("crewai", (1, 15, 30), (2,)),)
GOOGLE_ADK = (Supported("google-adk", (2, 13), (3,)),)
LANGGRAPH = (Supported("langgraph-checkpoint", (4, 3), (5,)),)
OPENAI_AGENTS = (Supported("openai-agents", (0, 24), (0, 25)),)
AUTOGEN = (Supported("autogen-agentchat", (0, 7, 5), (0, 8)), Supported("autogen-core", (0, 7, 5), (0, 8)))
LANGCHAIN = (Supported("langchain", (1, 4), (2,)), *LANGGRAPH)
PYDANTIC_AI = (Supported("pydantic-ai-slim", (2, 66), (3,)),)
STRANDS = (Supported("strands-agents", (1, 62), (2,)),)


def require(extra: str, packages: tuple[Supported, ...]) -> None:
    """Raise UsageError if a package is missing, or has a version that does not work."""
    for package in packages:
        try:
            found = metadata.version(package.package)
        except metadata.PackageNotFoundError:
            raise UsageError(
                f"{package.package} is not installed; nothing was done",
                hint=f"pip install 'takeback[{extra}]', which needs {package}",
            ) from None
        numbers = tuple(int(number) for number in re.findall(r"\d+", found.partition("+")[0])[:3])
        if not package.first <= numbers < package.below:
            raise UsageError(
                f"{package.package} {found} does not work with this version of Takeback; nothing was done",
                hint=f"pip install '{package}'",
            )


def on_first_use(
    module: str, extra: str, packages: tuple[Supported, ...], names: dict[str, str]
) -> Callable[[str], object]:
    """Return a `__getattr__` for a module: it checks the versions, and imports the submodule that has the name."""

    def find(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        require(extra, packages)
        return getattr(import_module(f"{module}.{names[name]}"), name)

    return find
