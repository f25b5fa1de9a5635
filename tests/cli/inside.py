"""The command line in this process: for tests that call it often, and are about what it does and not how it is run."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from unittest import mock

from tests.world.cli import Result, Workspace

from takeback.cli import main


class Inside(Workspace):
    """A workspace whose commands are calls of `main`. What a command under `takeback run` prints is not caught."""

    def run(self, *args: str, env: Mapping[str, str] | None = None, umask: int = -1) -> Result:
        out, err, code = io.StringIO(), io.StringIO(), 0
        surroundings = {"TAKEBACK_HOME": str(self.home), **(env or {})}
        before = os.umask(umask) if umask >= 0 else -1
        try:
            with mock.patch.dict(os.environ, surroundings), chdir(self.root):
                with redirect_stdout(out), redirect_stderr(err):
                    main(args)
        except SystemExit as stop:
            assert isinstance(stop.code, int | None)
            code = stop.code or 0
        finally:
            if before >= 0:
                os.umask(before)
        result = Result(code, out.getvalue(), err.getvalue())
        assert "Traceback" not in result.said and "mistake in Takeback" not in result.said, (args, result)
        return result
