"""The sender of mail, at least once: mail servers have no idempotency keys. The Message-ID is the same in every
attempt, so that a mailbox that compares it shows one message."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote, urlsplit

from takeback.errors import DeliveryFailed, UsageError
from takeback.senders.registry import Sending

PASSING = range(400, 500)


def about(
    *,
    to: str | Sequence[str],
    subject: str,
    body: str = "",
    html: str = "",
    sender: str = "",
    cc: str | Sequence[str] = (),
) -> str:
    """Return a short description: `email to ann@example.org`."""
    every = [*_many(to), *_many(cc)]
    if not _many(to) or any("@" not in one or "\n" in one for one in (*every, *([sender] if sender else []))):
        raise UsageError(
            "an email needs valid addresses; nothing was deferred", hint='for example to="ann@example.org"'
        )
    if "\n" in subject:
        raise UsageError("the subject of an email must be one line; nothing was deferred")
    _ = body, html
    more = f" and {len(every) - 1} more" if len(every) > 1 else ""
    return f"email to {every[0]}{more}"


def send(
    sending: Sending,
    *,
    to: str | Sequence[str],
    subject: str,
    body: str = "",
    html: str = "",
    sender: str = "",
    cc: str | Sequence[str] = (),
) -> dict[str, Any]:
    """Pass the mail to the mail server, or raise DeliveryFailed."""
    origin = sender or sending.sender
    if not sending.smtp or not origin:
        raise DeliveryFailed(
            "no mail server or no sender is configured",
            hint="set smtp and sender under [outbox] in takeback.toml, or TAKEBACK_SMTP",
            permanent=True,
            unsure=False,
        )
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = origin, ", ".join(_many(to)), subject
    if cc:
        message["Cc"] = ", ".join(_many(cc))
    message["Date"] = formatdate()
    domain = origin.rpartition("@")[2].strip(" >")
    message["Message-ID"] = f"<{sending.key}@{domain}>"
    message.set_content(body)
    if html:
        message.add_alternative(html, subtype="html")
    refused = _hand_over(sending, message)
    return {"message_id": str(message["Message-ID"]), "refused": sorted(refused)}


def _hand_over(sending: Sending, message: EmailMessage) -> dict[str, tuple[int, bytes]]:
    """Send the mail. Return the recipients that the server refused while it accepted others."""
    handing = False
    try:
        server = _connected(sending)
        handing = True
        try:
            return server.send_message(message)
        finally:
            _part(server)
    except (smtplib.SMTPRecipientsRefused, smtplib.SMTPSenderRefused) as error:
        codes = [code for code, _ in getattr(error, "recipients", {}).values()] or [error.smtp_code]  # type: ignore[union-attr]
        permanent = all(code not in PASSING for code in codes)
        raise DeliveryFailed(
            f"the mail server refused it: {codes[0]}", permanent=permanent, unsure=False
        ) from None
    except smtplib.SMTPResponseException as error:
        permanent = error.smtp_code not in PASSING and error.smtp_code > 0
        why = f"the mail server answered {error.smtp_code}"
        raise DeliveryFailed(why, permanent=permanent, unsure=False) from None
    except (smtplib.SMTPException, OSError) as error:
        why = f"the mail server {'did not answer' if handing else 'was not reached'}: {type(error).__name__}"
        raise DeliveryFailed(why, unsure=handing) from None


def _part(server: smtplib.SMTP) -> None:
    """Close the connection. Errors are ignored: the server has already accepted or refused the mail."""
    try:
        server.quit()
    except (smtplib.SMTPException, OSError):
        server.close()


def _connected(sending: Sending) -> smtplib.SMTP:
    parts = urlsplit(sending.smtp)
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
        raise DeliveryFailed(
            "the address of the mail server does not begin with smtp:// or smtps://",
            permanent=True,
            unsure=False,
        )
    secure = ssl.create_default_context()
    server: smtplib.SMTP
    if parts.scheme == "smtps":
        server = smtplib.SMTP_SSL(
            parts.hostname, parts.port or 465, timeout=sending.timeout_s, context=secure
        )
    else:
        server = smtplib.SMTP(parts.hostname, parts.port or 25, timeout=sending.timeout_s)
    try:
        server.ehlo()
        if server.has_extn("starttls"):
            server.starttls(context=secure)
        if parts.username:
            server.login(unquote(parts.username), unquote(parts.password or ""))
    except BaseException:
        server.close()
        raise
    return server


def _many(addresses: str | Sequence[str]) -> list[str]:
    return [addresses] if isinstance(addresses, str) else list(addresses)
