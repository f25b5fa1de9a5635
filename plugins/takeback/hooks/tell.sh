#!/bin/sh
# Tell Takeback what Claude Code is about to do, and what it has done. The event is on standard input.
command -v takeback-hook >/dev/null 2>&1 && takeback-hook claude-code && exit 0
# takeback-hook is missing or broken: Claude Code continues without it. Say so once for each session; but if the event was read
# and not answered, say so each time, because then Takeback is installed and broken.
case $1:$(cat) in
SessionStart:* | *:)
    echo '{"systemMessage": "Takeback does not work: it is not installed, or no longer. Nothing that is done here can be taken back. Its plugin needs `takeback-hook` on the PATH: install Takeback, for example with pipx, or remove the plugin."}'
    ;;
esac
exit 0
