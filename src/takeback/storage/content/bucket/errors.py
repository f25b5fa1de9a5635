"""What the errors of a bucket mean to a user: what failed, how the world is now, what to do next."""

from __future__ import annotations

import re

from takeback.errors import BackendError

SAFE = "Nothing was recorded or changed; what was put here is safe on this machine"

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
"""Who is asked for credentials where nobody gave any: the machine, if it is one of Amazon's."""


def is_lost(error: BaseException) -> bool:
    """Whether the way there is lost, or the server for the moment: worth another try."""
    said = str(error)
    if is_full(said) or any(address in said for address in _NO_CREDENTIALS):
        return False
    status = _status(said)
    return status in _AWAY if status else "HTTP error" in said or "error sending request" in said


def is_full(said: str) -> bool:
    return any(word in said for word in _FULL) or _status(said) == 507


def explain(error: BaseException, name: str, world: str = SAFE) -> BackendError:
    """Translate at the port. `name` is that of the bucket; there is no secret in what servers say."""
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
            hint="make room (`takeback gc` removes what is not needed any more) or raise its quota, and try again",
            retryable=True,
        )
    if code == "NoSuchBucket":
        return BackendError(
            f"{name} does not exist. {world}",
            hint="make the bucket, or see its name in the settings and AWS_ENDPOINT_URL",
        )
    if code in _CREDENTIALS or status == 401:
        return BackendError(
            f"{name} lets nobody in with these credentials: {text}. {world}",
            hint="see AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_PROFILE",
        )
    if status == 403 or "Permission denied" in said:
        return BackendError(
            f"{name} does not permit it: {text}. {world}",
            hint="these credentials need to list, read, write and delete objects there",
        )
    if status >= 500:
        return BackendError(
            f"{name} answers that it failed: {text}. {world}",
            hint="see its log and whether it is full; try again when it is well",
            retryable=True,
        )
    if is_lost(error):
        return BackendError(
            f"{name} cannot be reached: {text}. {world}",
            hint="try again when it answers; AWS_ENDPOINT_URL says where it is",
            retryable=True,
        )
    return BackendError(f"{name} refused: {text}. {world}", hint="see the settings of the bucket")


def _status(said: str) -> int:
    return int(_found(r"status code: (\d{3})", said) or 0)


def _text(said: str) -> str:
    """The shortest form of what it says: the server's own words, else the end of the first line."""
    code, message = _found(r"<Code>(\w+)</Code>", said), _found(r"<Message>([^<]*)</Message>", said)
    if code:
        return f"{code} ({message})" if message else code
    first = said.partition("\n")[0].strip()
    return first.rpartition(" - ")[2][:200]


def _found(pattern: str, said: str) -> str:
    found = re.search(pattern, said)
    return found[1] if found else ""
