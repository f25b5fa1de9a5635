"""Links between the traces of OpenAI Agents and the actions of Takeback."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, NamedTuple

from agents.tracing import (
    CustomSpanData,
    TracingProcessor,
    custom_span,
    get_current_span,
    get_current_trace,
)

LINK = "takeback"
"""The name of the spans that say which action a call is."""
TRACES_MAX = 1000


def current_span() -> str:
    """Return the ids of the trace and the span that this code is in; empty if it is not traced."""
    trace, span = get_current_trace(), get_current_span()
    if trace is None or span is None or trace.trace_id == "no-op":
        return ""
    return f"{trace.trace_id}/{span.span_id}"


def link(thread: str, action: str, tool: str) -> None:
    """Say in the trace which action this call is.

    Not in a span that is current during the call: the framework adds what the tool did to that one.
    """
    span = custom_span(LINK, {"thread": thread, "action": action, "tool": tool})
    span.start(mark_as_current=False)
    span.finish()


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
