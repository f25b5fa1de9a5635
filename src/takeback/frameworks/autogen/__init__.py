"""AutoGen: a workbench whose tool calls are actions, and a model client whose answers are recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.frameworks.supported import AUTOGEN, on_first_use

if TYPE_CHECKING:
    from takeback.frameworks.autogen.workbench import ApprovalPending, TakebackModelClient, TakebackWorkbench
else:
    _NAMES = dict.fromkeys(("ApprovalPending", "TakebackModelClient", "TakebackWorkbench"), "workbench")
    __getattr__ = on_first_use(__name__, "autogen", AUTOGEN, _NAMES)

__all__ = ["ApprovalPending", "TakebackModelClient", "TakebackWorkbench"]
