"""Translation of a bucket's errors for users: what failed, how the world is now, what to do next."""

from __future__ import annotations

import re

from takeback.errors import BackendError

SAFE = "Nothing was recorded or changed; the content is safe on this machine"

_AWAY = frozenset({408, 429, 500, 502, 503, 504})
_FULL = (
    "QuotaExceeded",
    "QuotaFull",
    "StorageFull",
    "InsufficientStorage",
    "InsufficientCapacity",
    "No space left",
)
_CREDENTIALS = (
    "SignatureDoesNotMatch",
    "InvalidAccessKeyId",
    "ExpiredToken",
    "InvalidToken",
    "TokenRefreshRequired",
    "AuthorizationHeaderMalformed",
    "CredentialsNotSupported",
)
_NO_CREDENTIALS = ("169.254.169.254", "169.254.170.2")
"""The driver asks these addresses if no credentials are given: the metadata service of Amazon's machines."""


def is_lost(error: BaseException) -> bool:
    """Return True if the connection or the server is gone for the moment, so that a retry may help."""
    said = str(error)
    if is_full(said) or any(address in said for address in _NO_CREDENTIALS):
        return False
    status = _status(said)
    return status in _AWAY if status else "HTTP error" in said or "error sending request" in said


def is_full(said: str) -> bool:
    return any(word in said for word in _FULL) or _status(said) == 507


def explain(error: BaseException, name: str, world: str = SAFE) -> BackendError:
    """Translate an error of the driver. `name` is the bucket's; servers' messages contain no secrets."""
    said = str(error)
    code = _found(r"<Code>(\w+)</Code>", said)
    status, text = _status(said), _text(said)
    if any(address in said for address in _NO_CREDENTIALS):
        return BackendError(
            f"there are no credentials for {name}. {world}",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and try again",
        )
    if is_full(said):
        return BackendError(
            f"{name} is full: {text}. {world}",
            hint="free some space (`takeback gc` removes what is no longer needed) or raise its quota, and try again",
            retryable=True,
        )
    if code == "NoSuchBucket":
        return BackendError(
            f"{name} does not exist. {world}",
            hint="create the bucket, or check its name in the settings and AWS_ENDPOINT_URL",
        )
    if code in _CREDENTIALS or status == 401:
        return BackendError(
            f"{name} rejected these credentials: {text}. {world}",
            hint="check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_PROFILE",
        )
    if status == 403 or "Permission denied" in said:
        return BackendError(
            f"{name} denied access: {text}. {world}",
            hint="these credentials need permission to list, read, write and delete objects there",
        )
    if status >= 500:
        return BackendError(
            f"{name} reports an internal error: {text}. {world}",
            hint="check its log and its free space, and try again later",
            retryable=True,
        )
    if is_lost(error):
        return BackendError(
            f"{name} cannot be reached: {text}. {world}",
            hint="try again when it answers; AWS_ENDPOINT_URL says where it is",
            retryable=True,
        )
    return BackendError(f"{name} refused: {text}. {world}", hint="check the settings of the bucket")


def _status(said: str) -> int:
    return int(_found(r"status code: (\d{3})", said) or 0)


def _text(said: str) -> str:
    """Return the server's own message in short; without one, the end of the first line."""
    code, message = _found(r"<Code>(\w+)</Code>", said), _found(r"<Message>([^<]*)</Message>", said)
    if code:
        return f"{code} ({message})" if message else code
    first = said.partition("\n")[0].strip()
    return first.rpartition(" - ")[2][:200]


def _found(pattern: str, said: str) -> str:
    found = re.search(pattern, said)
    return found[1] if found else ""
