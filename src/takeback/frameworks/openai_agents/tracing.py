"""Links between the traces of OpenAI Agents and the actions of Takeback."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, NamedTuple

from agents.tracing import CustomSpanData, TracingProcessor

from takeback.frameworks.openai_agents.conversation import LINK

TRACES_MAX = 1000


class TraceLink(NamedTuple):
    """An action, and the span of a trace in which it was made."""

    trace_id: str
    span_id: str
    thread: str
    """The key of the action's thread."""
    action: str
    tool: str


class TakebackTracing(TracingProcessor):
    """Finds the actions that were made in a trace.

        tracing = TakebackTracing()
        agents.add_trace_processor(tracing)
        tracing.links(trace_id)

    It knows the newest traces of this process. Each action names its trace and span for ever, in `action.ref`.
    """

    def __init__(self) -> None:
        self._links: OrderedDict[str, list[TraceLink]] = OrderedDict()
        self._lock = threading.Lock()

    def links(self, trace_id: str) -> list[TraceLink]:
        """Return the actions that were made in a trace, in order."""
        with self._lock:
            return list(self._links.get(trace_id, ()))

    def on_span_start(self, span: Any) -> None:
        data = span.span_data
        if not isinstance(data, CustomSpanData) or data.name != LINK:
            return
        about = data.data
        link = TraceLink(span.trace_id, span.span_id, about["thread"], about["action"], about["tool"])
        with self._lock:
            self._links.setdefault(span.trace_id, []).append(link)
            while len(self._links) > TRACES_MAX:
                self._links.popitem(last=False)

    def on_span_end(self, span: Any) -> None:
        """Do nothing: an action is linked when it begins."""

    def on_trace_start(self, trace: Any) -> None:
        """Do nothing: only calls are linked."""

    def on_trace_end(self, trace: Any) -> None:
        """Do nothing: the links of a trace can be read after its end, too."""

    def shutdown(self) -> None:
        """Do nothing: nothing waits to be written."""

    def force_flush(self) -> None:
        """Do nothing: nothing waits to be written."""
