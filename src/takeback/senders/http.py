"""The sender of HTTP requests. The header Idempotency-Key has the key, the same in every attempt."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from takeback.core.change import ABSENT
from takeback.core.redact import redact
from takeback.errors import DeliveryFailed, UsageError
from takeback.senders.registry import Sending

if TYPE_CHECKING:
    import httpx2

    from takeback.resources.calls.resource import Call

KEY = "Idempotency-Key"
BODY_MAX = 8 << 10
AGAIN_MAX_S = 86_400.0
OTHER_S = 30.0
"""The timeout of a request that takes another one back, or looks for it."""
UNDO = "takeback.senders.http:take_back"
CHECK = "takeback.senders.http:find"

REFUSED = (429, 503)
"""The receiver did nothing, and asks for another attempt."""
NOT_THERE = (404, 410)
"""The answers to a check that mean ABSENT."""
PASSING = (408, 409, 423, 425, *REFUSED, 500, 502, 504)
"""Worth another attempt. A receiver answers 409 while it still works on the same key."""


class HttpRefused(DeliveryFailed):
    """An answer other than 2xx."""

    status = 0


def about(
    method: str,
    url: str,
    *,
    json: Any = None,
    data: str | None = None,
    headers: Mapping[str, str] | None = None,
    undo: Mapping[str, Any] | None = None,
    check: Mapping[str, Any] | None = None,
) -> str:
    """Return a short description: `POST https://example.org/orders`."""
    address(url)
    if json is not None and data is not None:
        raise UsageError("a request can have json or data, not both; nothing was deferred")
    for word, other in (("undo", undo), ("check", check)):
        if other is None:
            continue
        if "method" not in other or "url" not in other:
            raise UsageError(f"{word} has to be a request with a method and a url; nothing was deferred")
        about(**{**other, "undo": None, "check": None})
    _ = headers
    return f"{method.upper()} {shown(url)}"


def send(
    sending: Sending,
    method: str,
    url: str,
    *,
    json: Any = None,
    data: str | None = None,
    headers: Mapping[str, str] | None = None,
    undo: Mapping[str, Any] | None = None,  # noqa: ARG001  for take_back
    check: Mapping[str, Any] | None = None,  # noqa: ARG001  for find
) -> dict[str, Any]:
    """Send the request, or raise DeliveryFailed. Return the status and the beginning of the answer."""
    content = data.encode() if data is not None else None
    return request(sending, method, url, {KEY: sending.key, **(headers or {})}, content=content, json=json)


def take_back(call: Call) -> None:
    """Send the request that takes another one back."""
    send(Sending(f"{call.key}-undo", OTHER_S), **call.kwargs["undo"])


def find(call: Call) -> Any:
    """Send the request that checks for another one. Return its answer, or ABSENT if the receiver does not have it.

    It has no key: a receiver that honours keys would repeat its first answer.
    """
    given = call.kwargs["check"]
    data, headers = given.get("data"), given.get("headers") or {}
    try:
        return request(
            Sending("", OTHER_S),
            given["method"],
            given["url"],
            headers,
            content=data.encode() if data is not None else None,
            json=given.get("json"),
        )
    except HttpRefused as refused:
        if refused.status in NOT_THERE:
            return ABSENT
        raise


def address(url: str) -> tuple[str, str]:
    """Return the scheme and the host of an address. Raise UsageError if it is not a full one."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises if the port is not a number
        if parts.scheme in ("http", "https") and parts.hostname:
            if find_spec("httpx2") is None:
                raise UsageError(
                    "httpx2 is not installed, so no request could be sent; nothing was deferred",
                    hint="pip install 'takeback[http]'",
                )
            return parts.scheme, parts.hostname
    except ValueError:
        pass
    raise UsageError(f"{redact(str(url))!r} is not an http:// or https:// address; nothing was deferred")


def shown(url: str) -> str:
    """Return an address without anything that may be a secret."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return redact(f"{parts.scheme}://{parts.hostname}{port}{parts.path}")


def request(
    sending: Sending,
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    content: bytes | None = None,
    json: Any = None,
) -> dict[str, Any]:
    import httpx2

    where = shown(url)
    try:
        answer = _client().request(
            method.upper(), url, headers=dict(headers), content=content, json=json, timeout=sending.timeout_s
        )
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
        raise DeliveryFailed(f"{where} was not reached: {type(error).__name__}", unsure=False) from None
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
        raise DeliveryFailed(
            f"no request can be sent to {where}: {type(error).__name__}", permanent=True
        ) from None
    except httpx2.HTTPError as error:
        # The error's text may repeat the address, so only its kind is reported.
        raise DeliveryFailed(f"{where} did not answer: {type(error).__name__}") from None
    body = answer.text[:BODY_MAX]
    if answer.is_success:
        return {"status": answer.status_code, "body": body}
    raise _refusal(answer, where)


def _refusal(answer: httpx2.Response, where: str) -> HttpRefused:
    status = answer.status_code
    why = f"{where} answered {status} {answer.reason_phrase}".rstrip()
    if status not in PASSING:
        refused = HttpRefused(why, permanent=True, unsure=False)
    else:
        again_s = _seconds(answer.headers.get("retry-after", ""))
        refused = HttpRefused(why, again_s=again_s, unsure=status not in REFUSED)
    refused.status = status
    return refused


def _seconds(text: str) -> float | None:
    """Return the pause that Retry-After asks for, as a number of seconds or a date."""
    try:
        seconds = (
            float(text) if text.strip().isdecimal() else parsedate_to_datetime(text).timestamp() - time.time()
        )
    except (TypeError, ValueError):
        return None
    return min(max(0.0, seconds), AGAIN_MAX_S)


@functools.cache
def _client() -> httpx2.Client:
    import httpx2

    return httpx2.Client(headers={"User-Agent": "takeback"}, follow_redirects=False)
