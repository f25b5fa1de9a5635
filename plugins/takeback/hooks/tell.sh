#!/bin/sh
# Tells Takeback what Claude Code is about to do, and what it has done. The event comes on standard input.
if command -v takeback-hook >/dev/null 2>&1; then
    exec takeback-hook claude-code
fi
# It is said once for each prompt, and not for each tool.
case $1 in
SessionStart | UserPromptSubmit)
    echo '{"systemMessage": "Takeback is not installed, so nothing that is done here can be taken back. Its plugin needs `takeback-hook` on the PATH: install Takeback, for example with pipx."}'
    ;;
esac
