"""Runs LangGraph's own conformance suite against the saver: `conforming SERIALIZER STORE FOLDER`."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from takeback.frameworks.langgraph import TakebackSaver

SERIALIZERS = {
    "strict": None,  # what a saver has by default
    "permissive": JsonPlusSerializer(allowed_msgpack_modules=True),
    "encrypted": EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef"),
}


def main(serializer: str, store: str, folder: str) -> None:
    numbers = itertools.count()

    @checkpointer_test(name=f"TakebackSaver, {serializer}, {store or 'a file'}")
    async def registered() -> AsyncIterator[TakebackSaver]:
        root = Path(folder) / str(next(numbers))
        root.mkdir()
        opened = TakebackSaver.from_conn_string(store or root, root=root, serde=SERIALIZERS[serializer])
        async with opened as saver:
            yield saver

    report = asyncio.run(validate(registered))
    report.print_report()
    for name, result in report.results.items():
        sys.stdout.write(f"{name}: {result.tests_passed} passed {result.failures}\n")
    if report.conformance_level() != "FULL" or not report.passed_all():
        sys.exit("it does not conform")


if __name__ == "__main__":
    main(*sys.argv[1:])
