"""The sender of webhooks: JSON by POST, signed by the Standard Webhooks specification. The message id is the key."""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from typing import Any

import msgspec

from takeback.errors import UsageError
from takeback.senders.http import KEY, address, request
from takeback.senders.registry import Sending

PREFIX = "whsec_"


def about(url: str, payload: Any, *, secret: str = "") -> str:
    """Return a short description: `webhook to example.org`."""
    _, host = address(url)
    _ = payload
    if secret:
        _secret(secret)
    return f"webhook to {host}"


def send(sending: Sending, url: str, payload: Any, *, secret: str = "") -> dict[str, Any]:
    body = msgspec.json.encode(payload)
    headers = {"Content-Type": "application/json", KEY: sending.key, "webhook-id": sending.key}
    if secret:
        at = str(int(time.time()))
        headers |= {"webhook-timestamp": at, "webhook-signature": sign(secret, sending.key, at, body)}
    return request(sending, "POST", url, headers, content=body)


def sign(secret: str, id: str, at: str, body: bytes) -> str:
    signed = hmac.digest(_secret(secret), f"{id}.{at}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(signed).decode()}"


def is_secret(text: str) -> bool:
    """Return True if the text has the form of a secret."""
    try:
        return bool(_secret(text))
    except UsageError:
        return False


def _secret(text: str) -> bytes:
    try:
        return base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(
            f"the secret of a webhook must be {PREFIX} and base64; nothing was deferred"
        ) from None
