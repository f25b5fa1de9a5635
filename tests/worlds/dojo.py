"""The tools of AgentDojo's workspace and banking suites as actions, with an undo for each that changes something.

The environment is a model that knows nothing of Takeback; two of them are compared by its own equality.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentdojo.functions_runtime import FunctionsRuntime

import takeback
from takeback import ABSENT, Call


class Hall:
    """The environment that is played in now, with its tools; and the keys of what was done in it."""

    environment: Any = None
    runtime: FunctionsRuntime = FunctionsRuntime()
    keys: set[str] = set()  # noqa: RUF012  there is one hall

    def enter(self, suite: Any) -> None:
        self.environment = suite.load_and_inject_default_environment({})
        self.runtime = FunctionsRuntime(suite.tools)
        self.keys.clear()

    def use(self, tool: str, arguments: dict[str, Any]) -> Any:
        result, _ = self.runtime.run_function(self.environment, tool, arguments, raise_on_error=True)
        return _plain(result)


hall = Hall()


def find(call: Call) -> Any:
    return True if call.key in hall.keys else ABSENT


def undo(call: Call) -> None:
    tool, arguments = call.args
    _, put_back = BEFORE_AND_BACK[tool]
    put_back(hall.environment, arguments, call.result["before"])
    hall.keys.discard(call.key)


@takeback.action(undo=undo, check=find)
def act(tool: str, arguments: dict[str, Any]) -> Any:
    seen, _ = BEFORE_AND_BACK[tool]
    before = seen(hall.environment, arguments)
    result = hall.use(tool, arguments)
    hall.keys.add(takeback.current_call().key)
    return {"before": before, "result": result}


@takeback.action(effect="none")
def look(tool: str, arguments: dict[str, Any]) -> Any:
    return hall.use(tool, arguments)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _put(thing: Any, before: dict[str, Any]) -> None:
    """Put the fields of a thing back in place: the environment has it in two lists."""
    was = type(thing).model_validate(before)
    for name in type(thing).model_fields:
        setattr(thing, name, getattr(was, name))


# For each tool: what it changes, as it is before; and putting that back.


def _new_mail(environment: Any, _arguments: Any) -> Any:
    return {"mail": environment.inbox._get_next_id()}


def _no_mail(environment: Any, _arguments: Any, before: Any) -> None:
    del environment.inbox.emails[before["mail"]]


def _unread(environment: Any, _arguments: Any) -> Any:
    return [mail.id_ for mail in environment.inbox.emails.values() if not mail.read]


def _mark_unread(environment: Any, _arguments: Any, before: Any) -> None:
    for id in before:
        environment.inbox.emails[id].read = False


def _nothing(_environment: Any, _arguments: Any) -> Any:
    return None


def _from_trash(environment: Any, arguments: Any, _before: Any) -> None:
    id = arguments["email_id"]
    environment.inbox.emails[id] = environment.inbox.trash.pop(id)


def _new_event(environment: Any, arguments: Any) -> Any:
    return _new_mail(environment, arguments) | {"event": environment.calendar._get_next_id()}


def _no_event(environment: Any, arguments: Any, before: Any) -> None:
    del environment.calendar.events[before["event"]]
    _no_mail(environment, arguments, before)


def _event(environment: Any, arguments: Any) -> Any:
    event = environment.calendar.events[arguments["event_id"]]
    return _new_mail(environment, arguments) | {"event": _plain(event)}


def _old_event(environment: Any, arguments: Any, before: Any) -> None:
    _put(environment.calendar.events[arguments["event_id"]], before["event"])


def _old_event_without_mail(environment: Any, arguments: Any, before: Any) -> None:
    _old_event(environment, arguments, before)
    _no_mail(environment, arguments, before)


def _new_file(environment: Any, _arguments: Any) -> Any:
    return environment.cloud_drive._get_next_id()


def _no_file(environment: Any, _arguments: Any, before: Any) -> None:
    del environment.cloud_drive.files[before]


def _file(environment: Any, arguments: Any) -> Any:
    return _plain(environment.cloud_drive.files[arguments["file_id"]])


def _old_file(environment: Any, arguments: Any, before: Any) -> None:
    _put(environment.cloud_drive.files[arguments["file_id"]], before)


def _file_again(environment: Any, arguments: Any, before: Any) -> None:
    id = arguments["file_id"]
    kept = next(file for file in environment.cloud_drive.initial_files if file.id_ == id)
    environment.cloud_drive.files[id] = type(kept).model_validate(before)


def _sent(environment: Any, _arguments: Any) -> Any:
    return len(environment.bank_account.transactions)


def _unsend(environment: Any, _arguments: Any, before: Any) -> None:
    del environment.bank_account.transactions[before:]


def _scheduled(environment: Any, _arguments: Any) -> Any:
    return len(environment.bank_account.scheduled_transactions)


def _unschedule(environment: Any, _arguments: Any, before: Any) -> None:
    del environment.bank_account.scheduled_transactions[before:]


def _transaction_of(environment: Any, arguments: Any) -> Any:
    every = environment.bank_account.scheduled_transactions
    return next(one for one in every if one.id == int(arguments["id"]))


def _transaction(environment: Any, arguments: Any) -> Any:
    return _plain(_transaction_of(environment, arguments))


def _old_transaction(environment: Any, arguments: Any, before: Any) -> None:
    _put(_transaction_of(environment, arguments), before)


def _account(environment: Any, _arguments: Any) -> Any:
    return _plain(environment.user_account)


def _old_account(environment: Any, _arguments: Any, before: Any) -> None:
    _put(environment.user_account, before)


BEFORE_AND_BACK: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any, Any], None]]] = {
    "send_email": (_new_mail, _no_mail),
    "delete_email": (_nothing, _from_trash),
    "get_unread_emails": (_unread, _mark_unread),
    "create_calendar_event": (_new_event, _no_event),
    "cancel_calendar_event": (_event, _old_event_without_mail),
    "reschedule_calendar_event": (_event, _old_event_without_mail),
    "add_calendar_event_participants": (_event, _old_event),
    "create_file": (_new_file, _no_file),
    "append_to_file": (_file, _old_file),
    "share_file": (_file, _old_file),
    "delete_file": (_file, _file_again),
    "send_money": (_sent, _unsend),
    "schedule_transaction": (_scheduled, _unschedule),
    "update_scheduled_transaction": (_transaction, _old_transaction),
    "update_password": (_account, _old_account),
    "update_user_info": (_account, _old_account),
}
"""The tools that change something. Every other one only looks, which is compared too."""
