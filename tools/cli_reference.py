"""docs/CLI.md, generated from the commands themselves by `./dev docs`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from takeback.cli.app import GROUPS, app

INTRODUCTION = """\
# Command line

`./dev docs` generates this page from the help texts. `takeback COMMAND --help` prints the same in your terminal.

- Without `-C` a command works on the nearest protected folder at or above the current one; or else on the
  nearest folder with a takeback.toml; or else with a `.git`; or else on the current folder.
- `--json` prints one object on standard output, and an error as `{"error": {"code", "message", "hint"}}`.
  `run --json` writes its object to standard error, since standard output belongs to the command.
- An id is a letter and a number: `a7` an action, `r5` a run, `s6` a step of it, `p9` a request for your approval,
  `c3` a checkpoint. `takeback log` lists them.
- Settings and environment variables are in [CONFIG.md](CONFIG.md).
"""


def reference() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION]
    for title, group in GROUPS.items():
        parts.append(f"- **{title}**: {', '.join(f'[{name}](#takeback-{name})' for name in group)}")
    parts.append("")
    for name, context in _walk(_context(app, "takeback"), "takeback"):
        parts.append(f"## {name}\n")
        parts.append(f"```text\n{' '.join([name, *context.command.collect_usage_pieces(context)])}\n```\n")
        parts += _paragraphs(context.command.help)
        parts.append("\n".join(_options(context)) + "\n")
        parts += _paragraphs(context.command.epilog)
    return "\n".join(parts)


def _walk(context: click.Context, name: str) -> Iterator[tuple[str, click.Context]]:
    """Yield every visible command with its full name, in the order of the help."""
    yield name, context
    group = context.command
    if not isinstance(group, click.Group):
        return
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        if command is not None and not command.hidden:
            yield from _walk(_context(command, word, context), f"{name} {word}")


def _context(command: click.Command, name: str, parent: click.Context | None = None) -> click.Context:
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def _paragraphs(text: str | None) -> Iterator[str]:
    """Yield a help text as Markdown. A paragraph that begins with \\b keeps its line breaks, as in a terminal."""
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        if paragraph.startswith("\b"):
            lines = paragraph.removeprefix("\b").strip("\n")
            yield f"```text\n{lines}\n```\n"
        elif paragraph:
            yield f"{' '.join(paragraph.split())}\n"


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            yield _option(parameter, context)


def _option(option: click.Option, context: click.Context) -> str:
    spelling = ", ".join([*option.opts, *option.secondary_opts])
    if not option.is_flag and not option.count:
        metavar = option.make_metavar(context)
        spelling += f" {metavar[1:-1] if metavar[0] + metavar[-1] in ('[]', '{}') else metavar}"
    line = f"- `{spelling}`: {(option.help or '').rstrip('.')}"
    return f"{line} (default: `{option.default}`)" if option.show_default else line
