"""The `personaplex` command: its subcommands, and how their errors end."""

import os
import sys
import traceback
from importlib.metadata import version
from typing import Annotated, Any

import typer

from personaplex.cli.commands import batch, bench, compare, doctor, models, offline, prompts, regress, voices
from personaplex.cli.console import is_debug, show_error
from personaplex.cli.interrupts import INTERRUPTED
from personaplex.cli.options import is_settable, option_name
from personaplex.core.machine.device_errors import told_device_error
from personaplex.voices.catalogue import VARIABLE

ENVIRONMENT_PREFIX = "PERSONAPLEX"

# typer carries click inside; of click's usage error it shows only the subclass.
_UsageError: Any = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="personaplex",
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
app.command(epilog=compare.EXAMPLE)(compare.compare)
app.add_typer(regress.app, name="regress")
app.command(epilog=bench.EXAMPLE)(bench.bench)
app.command(epilog=doctor.EXAMPLE)(doctor.doctor)
app.add_typer(voices.app, name="voices")
app.add_typer(prompts.app, name="prompts")
app.add_typer(models.app, name="models")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"personaplex {version('personaplex')}")
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
    return built


def _add_variables(built: Any) -> None:
    for option in built.params:
        if is_settable(option) or option.name == "config":
            variable = f"{ENVIRONMENT_PREFIX}_{option_name(option).replace('-', '_').upper()}"
            option.envvar = None if variable == VARIABLE else variable
            option.show_envvar = False
    for child in getattr(built, "commands", {}).values():
        _add_variables(child)


def run() -> None:
    """Entry point: exit codes 0, 1 (items failed), 2 (usage), 3 (model or environment), 4 (a difference), 130."""
    # Kernels' threads wait for each other by spinning, by default so long that two processes on the same cores bring
    # each other nearly to a stand. torch's OpenMP reads this when torch is imported.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    try:
        code = command()(standalone_mode=False)
    except _UsageError as error:
        if error.format_message():  # empty after a command without arguments, which has shown its help
            typer.echo(f"error: {error.format_message()}", err=True)
            typer.echo(f"  see `{error.ctx.command_path if error.ctx else 'personaplex'} --help`", err=True)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        told = told_device_error(error)
        if told is None:
            raise  # a bug
        if is_debug():
            traceback.print_exception(error)
        show_error(told)
        code = told.exit_code
    sys.exit(code if isinstance(code, int) else 0)
