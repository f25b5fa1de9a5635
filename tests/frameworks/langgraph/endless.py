"""A graph that counts until it is killed: `endless run FOLDER`; `endless look FOLDER` prints how far it came."""

from __future__ import annotations

import sys
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

from takeback.frameworks.langgraph import TakebackSaver

CONFIG: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 10_000}


def speak(state: MessagesState) -> dict[str, Any]:
    number = len(state["messages"])
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()
    return {"messages": [AIMessage(f"step {number}")]}


def main(what: str, folder: str) -> None:
    with TakebackSaver.from_conn_string(folder) as saver:
        builder = StateGraph(MessagesState)
        builder.add_node("speak", speak)
        builder.add_edge(START, "speak")
        builder.add_edge("speak", "speak")
        graph = builder.compile(checkpointer=saver)
        if what == "run":
            graph.invoke({"messages": []}, CONFIG, durability="sync")
        messages = graph.get_state(CONFIG).values["messages"]
        assert [message.content for message in messages] == [f"step {n}" for n in range(len(messages))]
        sys.stdout.write(str(len(messages)))


if __name__ == "__main__":
    main(*sys.argv[1:])
