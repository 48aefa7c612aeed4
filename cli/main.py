"""The `personaplex` command: its subcommands, and how their errors end."""

import errno
import sys
import traceback
from collections.abc import Callable, Collection
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from personaplex.cli.commands import (
    batch,
    bench,
    callers,
    compare,
    doctor,
    export,
    measure,
    models,
    offline,
    page,
    prompts,
    regress,
    talk,
    voices,
)
from personaplex.cli.console import is_debug, log, result, show_error
from personaplex.cli.interrupts import INTERRUPTED, ended_by_signals
from personaplex.cli.options import is_settable, option_name
from personaplex.cli.streams import Guarded, fill_closed, guarded
from personaplex.core.errors import InputError, UsageError
from personaplex.core.machine.device_errors import told_device_error
from personaplex.core.machine.spinning import spin_less
from personaplex.core.storage.urls import is_url, url_of_path, without_secrets
from personaplex.voices.catalogue import VARIABLE

ENVIRONMENT_PREFIX = "PERSONAPLEX"
READER_LEFT = 128 + 13  # SIGPIPE, which not every system has

# typer carries click inside; of click's usage error it shows only the subclass.
_UsageError: Any = typer.BadParameter.__mro__[1]


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """Run a command; one that a signal ends at once says so."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("error: interrupted", file=sys.stderr)
            raise


app = typer.Typer(
    name="personaplex",
    cls=_Commands,
    help="Run PersonaPlex-7B offline: callers' WAVs in, the agent's WAVs and timestamped transcripts out.",
    epilog=(
        "Example: personaplex offline --model tiny --input-wav CALL.wav --voice-prompt VOICE.wav tries a call without "
        "a download. Begin with `personaplex doctor`, which looks this machine over; `personaplex offline --help` has "
        "all options. Each can also be set as PERSONAPLEX_OPTION in the environment."
    ),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(epilog=offline.EXAMPLE)(offline.offline)
app.command(epilog=batch.EXAMPLE)(batch.batch)
app.command(epilog=talk.EXAMPLE)(talk.talk)
app.command(epilog=callers.EXAMPLE)(callers.callers)
app.command(epilog=measure.EXAMPLE)(measure.measure)
app.command(epilog=page.EXAMPLE)(page.page)
app.command(epilog=export.EXAMPLE)(export.export)
app.command(epilog=compare.EXAMPLE)(compare.compare)
app.add_typer(regress.app, name="regress")
app.command(epilog=bench.EXAMPLE)(bench.bench)
app.command(epilog=doctor.EXAMPLE)(doctor.doctor)
app.add_typer(voices.app, name="voices")
app.add_typer(prompts.app, name="prompts")
app.add_typer(models.app, name="models")


def _show_version(wanted: bool) -> None:
    if wanted:
        result(f"personaplex {version('personaplex')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run PersonaPlex-7B offline: callers' WAVs in, the agent's WAVs and timestamped transcripts out."""


def command() -> Any:
    """The command with an environment variable PERSONAPLEX_<OPTION> behind every option.

    PERSONAPLEX_VOICES is the user's folder of voices and not `batch --voices`.
    """
    built = typer.main.get_command(app)
    _add_variables(built)
    _refuse_urls(built)
    return built


def _refuse_urls(built: Any) -> None:
    """Let commands refuse URLs where they take paths, instead of making a folder called `s3:`."""
    for name, child in getattr(built, "commands", {}).items():
        if not hasattr(child, "commands"):
            child.callback = _with_paths(child.callback, () if name == "batch" else ("source",))
        _refuse_urls(child)


def _with_paths(callback: Callable[..., Any], also: Collection[str]) -> Callable[..., Any]:
    """A command that refuses URLs for its paths, and for its parameters `also`."""

    @wraps(callback)
    def checked(**given: Any) -> Any:
        for name, value in given.items():
            for one in value if isinstance(value, list | tuple) else [value]:
                url = url_of_path(one) if isinstance(one, Path) else one if name in also and is_url(one) else None
                if url is not None:
                    what = f"{without_secrets(url)} is in a store, and this must be a path of this machine"
                    raise UsageError(what, "copy it here first: `personaplex batch` alone reads and writes stores")
        return callback(**given)

    return checked


def _add_variables(built: Any) -> None:
    for option in built.params:
        if is_settable(option) or option.name == "config":
            variable = f"{ENVIRONMENT_PREFIX}_{option_name(option).replace('-', '_').upper()}"
            option.envvar = None if variable == VARIABLE else variable
            option.show_envvar = False
    for child in getattr(built, "commands", {}).values():
        _add_variables(child)


def run() -> None:
    """Entry point: exit codes 0, 1 (items failed), 2 (usage), 3 (model or environment), 4 (a difference), 128 + signal.

    What standard output and error make of it is looked at last: it never changes what a command does.
    """
    spin_less()
    fill_closed()
    with guarded() as out, ended_by_signals() as seen:
        code = _run(seen)
        if code == INTERRUPTED and seen:  # typer knows of Ctrl-C alone
            code = 128 + seen[-1]
        out.flush()
        code = _delivered(out, code)
    sys.exit(code)


def _run(signals: list[int]) -> int:
    try:
        code = command()(standalone_mode=False)
    except _UsageError as error:
        if error.format_message():  # empty after a command without arguments, which has shown its help
            path = error.ctx.command_path if error.ctx else "personaplex"
            show_error(UsageError(error.format_message(), f"see `{path} --help`"))
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if signals:  # what the exception became in a library that was being imported
            print("error: interrupted", file=sys.stderr)
            return INTERRUPTED
        told = told_device_error(error)
        if told is None:
            raise  # a bug
        if is_debug():
            traceback.print_exception(error)
        show_error(told)
        code = told.exit_code
    return code if isinstance(code, int) else 0


def _delivered(out: Guarded, code: int) -> int:
    """The exit code, if a result that is lost makes it another.

    A reader that has seen enough, such as `head`, is no error to be told; the code is that of other programs then.
    """
    if out.fault is None:
        return code
    reason = out.fault.strerror
    if out.fault.errno == errno.EPIPE:
        return code or (READER_LEFT if out.has_lost_results else 0)
    if out.has_lost_results:
        show_error(InputError(f"the result could not be written to stdout: {reason}", "send it to another place"))
        return code or InputError.exit_code
    log.warning("the summary could not be written to stdout: %s; all files are written", reason)
    return code
