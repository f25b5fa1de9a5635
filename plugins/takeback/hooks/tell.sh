#!/bin/sh
# Tells Takeback what Claude Code is about to do, and what it has done. The event comes on standard input.
command -v takeback-hook >/dev/null 2>&1 && takeback-hook claude-code && exit 0
# It is not there, or not any more: Claude Code goes on without it. It is said once for each session; and where the event
# was taken and not answered, each time, for then Takeback is there and broken.
case $1:$(cat) in
SessionStart:* | *:)
    echo '{"systemMessage": "Takeback does not work: it is not installed, or not any more. Nothing that is done here can be taken back. Its plugin needs `takeback-hook` on the PATH: install Takeback, for example with pipx, or take the plugin out."}'
    ;;
esac
exit 0
