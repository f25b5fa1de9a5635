"""The command line in this process, for tests that call it often and are not about processes."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from unittest import mock

import pytest

from takeback.cli import main
from tests.world.cli import Result, Workspace


class Inside(Workspace):
    """A workspace whose commands are calls of `main`. What a command under `takeback run` prints is not caught."""

    def run(self, *args: str, env: Mapping[str, str] | None = None, umask: int = -1) -> Result:
        out, err = io.StringIO(), io.StringIO()
        surroundings = {"TAKEBACK_HOME": str(self.home), **(env or {})}
        before = os.umask(umask) if umask >= 0 else -1
        try:
            with (
                mock.patch.dict(os.environ, surroundings),
                chdir(self.root),
                redirect_stdout(out),
                redirect_stderr(err),
                pytest.raises(SystemExit) as stop,
            ):
                main(args)
        finally:
            if before >= 0:
                os.umask(before)
        code = stop.value.code
        assert isinstance(code, int | None)
        result = Result(code or 0, out.getvalue(), err.getvalue())
        assert "Traceback" not in result.said and "bug in Takeback" not in result.said, (args, result)
        return result
