"""``completion``: what a shell completes after ``oplib``."""

from __future__ import annotations

import argparse
import re
from typing import Any

from .output import print_result

_BASH = """_oplib() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" options= values=
    case "$COMP_CWORD ${{COMP_WORDS[1]}}" in
        "1 "*) options="--help --version" values="{commands}" ;;
{cases}
    esac
    [[ $word == -* ]] && values=$options
    COMPREPLY=($(compgen -W "$values" -- "$word"))
}}
complete -o default -F _oplib oplib"""
_ZSH = "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n"


def add_completion_command(commands: Any) -> None:
    """Adds the command to the parser."""
    command = commands.add_parser("completion", help="the script with which a shell completes commands")
    command.add_argument("shell", choices=["bash", "zsh", "fish"])
    command.set_defaults(run=lambda options: print_script(options, commands.choices))


def print_script(options: argparse.Namespace, parsers: dict[str, argparse.ArgumentParser]) -> int:
    """Prints the script of a shell for commands and their options."""
    helps = {name: parser.format_help() for name, parser in parsers.items()}
    words = {name: " ".join(sorted(set(re.findall("--[a-z-]+", text)))) for name, text in helps.items()}
    values = {
        name: " ".join(dict.fromkeys(re.findall(r"[\w-]+", " ".join(re.findall("{.*?}", text)))))
        for name, text in helps.items()
    }
    if options.shell == "fish":
        lines = [f'complete -c oplib -f -n __fish_use_subcommand -a "{" ".join(words)}"']
        lines += [
            f'complete -c oplib -n "__fish_seen_subcommand_from {name}" -a "{words[name]} {values[name]}"'
            for name in words
        ]
        script = "\n".join(lines)
    else:
        cases = "\n".join(
            f'        *" {name}") options="{words[name]}" values="{values[name]}" ;;' for name in words
        )
        script = (_ZSH if options.shell == "zsh" else "") + _BASH.format(
            commands=" ".join(words), cases=cases
        )
    print_result(options, {"shell": options.shell, "script": script}, script)
    return 0
