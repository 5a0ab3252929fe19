"""`autoscaler completion`: prints the script of a shell. The script calls `autoscaler __complete` at each press of Tab.

The answer has the form of `kubectl __complete`: one line for each possible word, with its meaning after a tab, and a
last line that tells the shell how to use the words.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

from autoscaler.cli import output
from autoscaler.cli.arguments import Argument, Parser
from autoscaler.cli.subcommands import Subcommand


class Directive(IntEnum):
    """How the shell uses the words of an answer."""

    FILES = 0
    """Offer the names of files, because there are no words."""
    WORDS = 4
    """Offer nothing else."""


_BASH = r"""# bash completion of autoscaler; load it with: source <(autoscaler completion bash)
_autoscaler() {
    local line=${COMP_LINE:0:COMP_POINT} candidate directive=4
    local -a words
    read -ra words <<<"$line"
    while ((${#words[@]})) && [[ ${words[0]} != "${COMP_WORDS[0]}" ]]; do words=("${words[@]:1}"); done
    [[ $line == *[[:space:]] ]] && words+=("")
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        case $candidate in
            :*) directive=${candidate#:} ;;
            *) COMPREPLY+=("$candidate") ;;
        esac
    done < <("${words[0]/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null)
    ((directive == 0)) || compopt +o default 2>/dev/null
}
complete -o default -F _autoscaler autoscaler"""

_ZSH = r"""#compdef autoscaler
# zsh completion of autoscaler; load it with: source <(autoscaler completion zsh)
_autoscaler() {
    local -a answer candidates
    local line tab=$'\t'
    answer=("${(@f)$("${(Q)words[1]/#\~/$HOME}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    [[ $PREFIX == -* ]] && compset -P '*='
    if [[ ${answer[-1]} == ":0" ]]; then
        _files
        return
    fi
    for line in "${(@)answer[1,-2]}"; do
        candidates+=("${${line//:/\\:}/$tab/:}")
    done
    _describe autoscaler candidates
}
if [[ ${funcstack[1]} == _autoscaler ]]; then
    _autoscaler "$@"
else
    compdef _autoscaler autoscaler
fi"""

_FISH = r"""# fish completion of autoscaler; load it with: autoscaler completion fish | source
function __autoscaler_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l answer ($words[1] __complete $words[2..-1] "$typed" 2>/dev/null)
    set -l flag (string match -r -- '^-[^=]*=' "$typed")
    if test "$answer[-1]" = ":0"
        set answer (__fish_complete_path (string replace -- "$flag" "" "$typed"))
    else
        set -e answer[-1]
    end
    for candidate in $answer
        echo "$flag$candidate"
    end
end
complete -c autoscaler -f -a '(__autoscaler_complete)'"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the positional argument for the shell."""
    parser.add_argument("shell", choices=tuple(_SCRIPTS), metavar="|".join(_SCRIPTS), help="the shell to complete in")
    parser.epilog = (
        "bash: source <(autoscaler completion bash) in ~/.bashrc. zsh: source <(autoscaler completion zsh) in "
        "~/.zshrc, after compinit. fish: autoscaler completion fish > ~/.config/fish/completions/autoscaler.fish."
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    output.write(_SCRIPTS[args.shell])
    return 0


def completions(words: Sequence[str], commands: Mapping[str, Subcommand]) -> Iterator[str]:
    """Return the lines of the answer. `words` follow the name of the program; the last one is incomplete."""
    *before, typed = words or ("",)
    if not before and not typed.startswith("-"):
        return _words(typed, {command.name: command.help for command in commands.values()})
    if not before or before[0].startswith("-"):
        return _Place(commands["run"].parser("autoscaler"), before).answer(typed)
    command = commands.get(before[0])
    return _words(typed, {}) if command is None else _Place(command.parser("autoscaler"), before[1:]).answer(typed)


class _Place:
    """The place of the incomplete word on a command line."""

    def __init__(self, parser: Parser, before: Iterable[str]) -> None:
        self._enter(parser)
        for word in before:
            self._pass(word)

    def _enter(self, parser: Parser) -> None:
        self._actions = parser.actions()
        arguments = parser.arguments()
        self._options = {name: argument for argument in arguments for name in argument.names}
        self._positionals = [argument for argument in arguments if not argument.names]
        self._awaiting: Argument | None = None
        """The option whose value is the next word."""

    def _pass(self, word: str) -> None:
        if self._awaiting is not None:
            self._awaiting = None
        elif word.startswith("-"):
            option = self._options.get(word)
            self._awaiting = option if option is not None and option.takes_value else None
        elif word in self._actions:
            self._enter(self._actions[word].parser)
        elif len(self._positionals) > 1:
            self._positionals.pop(0)

    def answer(self, typed: str) -> Iterator[str]:
        name, equals, value = typed.partition("=")
        if self._awaiting is not None:
            return _values(self._awaiting, typed)
        if typed.startswith("-") and equals:
            return _values(self._options.get(name), value)
        if typed.startswith("-"):
            return _words(typed, {name: option.help for name, option in self._options.items()})
        if self._actions:
            return _words(typed, {name: action.help for name, action in self._actions.items()})
        return _values(next(iter(self._positionals), None), typed)


def _values(argument: Argument | None, typed: str) -> Iterator[str]:
    if argument is None:
        return _words(typed, {})
    if argument.is_file:
        return iter((f":{Directive.FILES:d}",))
    done = typed.rpartition(",")[0] if argument.is_list else ""
    return _words(typed, {f"{done},{choice}" if done else choice: "" for choice in argument.choices()})


def _words(typed: str, meanings: Mapping[str, str]) -> Iterator[str]:
    for word, meaning in meanings.items():
        if word.startswith(typed):
            yield f"{word}\t{meaning}" if meaning else word
    yield f":{Directive.WORDS:d}"
