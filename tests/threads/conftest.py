from __future__ import annotations

from tests.runs.conftest import _service, scene

__all__ = ["_service", "scene"]
