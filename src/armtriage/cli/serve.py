"""The commands `serve`, `key` and `store`: the decision service, the keys to it, and its store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from armtriage import __version__
from armtriage.cli.terminal import refusing, say

if TYPE_CHECKING:
    from armtriage.service.service import Service
    from armtriage.service.stores import Store

_DEFAULT = "armtriage.db"
StoreOption = Annotated[
    str, typer.Option("--store", help="A file, sqlite:///FILE or postgresql://...", envvar="ARMTRIAGE_STORE")
]
CreateOption = Annotated[bool, typer.Option("--create", help="Make the store, if its file is not there.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
PolicyArgument = Annotated[str, typer.Argument(help="The policy.", metavar="POLICY")]
Found = TypeVar("Found")

_PLAIN: Any = {
    "no_args_is_help": True,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
key = typer.Typer(help="Make, list and revoke keys of the service.", **_PLAIN)
store = typer.Typer(help="Check, copy, replay and clear the store.", **_PLAIN)


def serve(
    address: StoreOption = _DEFAULT,
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine only once there is a key.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    url: Annotated[
        str | None,
        typer.Option(help="With PostgreSQL: where other servers reach this one, to hand requests to each other."),
    ] = None,
    create: CreateOption = False,
    log: Annotated[str, typer.Option(help="How lines of the log are written: text or json.")] = "text",
    log_level: Annotated[str, typer.Option(help="The least that is logged: debug, info, warning or error.")] = "info",
) -> None:
    """Serve decisions over HTTP.

    What is acknowledged is stored. Policies are made, asked and told with JSON; /openapi.json says how. SIGTERM stops
    it cleanly. An example:

    armtriage serve --store decisions.db --create
    """
    with refusing():
        require_service()
        from armtriage.service.logs import writing
        from armtriage.service.server import run
        from armtriage.service.stores import StoreError, open_store

        def started(service: Service, at: int) -> None:
            many = "1 policy" if len(service.loops) == 1 else f"{len(service.loops)} policies"
            open_to = "no key yet, so this machine only" if service.access.open else "with keys"
            say(f"armtriage {__version__} serves http://{host}:{at} ({many}, {open_to}); Ctrl+C stops it")
            say(f"The dashboard is at http://{host}:{at}/")

        try:
            with writing(log, log_level):
                run(open_store(address, create=create), host, port, started, url)
        except StoreError as error:
            typer.echo(f"armtriage: {error}", err=True)
            raise typer.Exit(1) from error


def require_service() -> None:
    """Say what to install, where the server's packages are missing."""
    try:
        import msgspec  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ImportError("the service needs more packages: pip install 'armtriage[serve]'") from None


def _with_store(address: str, owned: bool, work: Callable[[Store], Awaitable[Found]], *, create: bool = False) -> Found:
    """Return what a function finds in a store; a store that refuses ends the command with exit code 1."""
    with refusing():
        require_service()
        from armtriage.service.stores import StoreError, open_store

        async def go() -> Found:
            one = open_store(address, owned=owned, create=create)
            await one.open()
            try:
                return await work(one)
            finally:
                await one.close()

        try:
            return asyncio.run(go())
        except StoreError as error:
            typer.echo(f"armtriage: {error}", err=True)
            raise typer.Exit(1) from error


def _ask(address: str, function: str, *given: Any, owned: bool = False) -> Any:
    """Return what a function of `armtriage.service.upkeep` finds in a store."""

    async def work(one: Store) -> Any:
        from armtriage.service import upkeep

        return await getattr(upkeep, function)(one, *given)

    return _with_store(address, owned, work)


def _echo(facts: Any) -> None:
    typer.echo(json.dumps(facts, indent=2))


@key.command("new")
def key_new(
    scope: Annotated[str, typer.Option(help="Some of decide,reward,read,admin.")] = "decide,reward",
    label: Annotated[str, typer.Option(help="What the key is for.")] = "",
    rate: Annotated[float, typer.Option(help="Requests a second; 0 for any number.")] = 100.0,
    address: StoreOption = _DEFAULT,
    create: CreateOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a key and print it, for the only time."""
    with refusing():
        require_service()
        from armtriage.service.keys import new_key

        text, row = new_key(scope.split(","), label, rate)
    owned = "://" not in address and not Path(address).exists()
    _with_store(address, owned, lambda one: one.put_key(row), create=create)
    if as_json:
        typer.echo(json.dumps({"key": text, "id": row.id, "scopes": row.scopes.split(","), "rate": row.rate}))
    else:
        say(text)
        typer.echo("armtriage: this key is not shown again; a running server knows it within 5 seconds", err=True)


@key.command("list")
def key_list(address: StoreOption = _DEFAULT, as_json: JsonOption = False) -> None:
    """List the keys, without their secrets."""
    rows = _with_store(address, False, lambda one: one.keys())
    if as_json:
        said = ({"id": row.id, "scopes": row.scopes.split(","), "label": row.label, "rate": row.rate} for row in rows)
        _echo({"keys": [{**one, "revoked": bool(row.revoked)} for one, row in zip(said, rows, strict=True)]})
        return
    table = Table("key", "scopes", "label", "requests/s", "state")
    for row in rows:
        rate, state = f"{row.rate:g}" if row.rate else "any", "revoked" if row.revoked else "good"
        table.add_row(row.id, row.scopes.replace(",", ", "), escape(row.label), rate, state)
    Console().print(table)


@key.command("revoke")
def key_revoke(
    which: Annotated[str, typer.Argument(help="The key's id, as `key list` shows it.", metavar="ID")],
    address: StoreOption = _DEFAULT,
) -> None:
    """Revoke a key; running servers refuse it within 5 seconds."""

    async def work(one: Store) -> bool:
        from armtriage.service import clock

        return await one.revoke_key(which, clock.wall())

    if not _with_store(address, False, work):
        typer.echo(f"armtriage: there is no key {which}", err=True)
        raise typer.Exit(1)
    say(f"Key {which} is revoked")


@store.command("check")
def store_check(address: StoreOption = _DEFAULT, as_json: JsonOption = False) -> None:
    """Check files, snapshots and logs.

    Every log is replayed from its beginning, and must give the same state.
    """
    problems, policies = _ask(address, "check")
    if as_json:
        _echo({"problems": problems, "policies": policies})
    else:
        for name, facts in policies.items():
            say(f"{name}: {facts['head']} events, state {facts['digest'][:16]}")
        for problem in problems:
            say(problem)
        say(f"{len(problems)} problems" if problems else "Everything is as it should be")
    if problems:
        raise typer.Exit(1)


@store.command("backup")
def store_backup(
    target: Annotated[Path, typer.Argument(help="The copy, which must not be there yet.", metavar="FILE")],
    address: StoreOption = _DEFAULT,
) -> None:
    """Copy the store, even while a server uses it; the copy can be served."""
    _with_store(address, False, lambda one: one.backup(str(target)))
    say(f"The copy is {target}")


@store.command("replay")
def store_replay(
    name: PolicyArgument,
    address: StoreOption = _DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Rebuild a policy's state from its log.

    It also says whether the policy would make the same decisions again.
    """
    facts = _ask(address, "replay", name)
    if as_json:
        _echo(facts)
    else:
        differ = "an unknown number" if facts["different"] is None else facts["different"]
        say(f"{facts['head']} events, {facts['decisions']} decisions, of which {differ} would differ here")
        say(f"State {facts['digest']}")


@store.command("lift")
def store_lift(
    name: PolicyArgument,
    address: StoreOption = _DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Compare a policy with its control group.

    It says how much more the policy earns, and whether its metrics stay within their limits.
    """
    facts = _ask(address, "lift", name)
    if as_json:
        _echo(facts)
        return
    if facts["lift"] is not None:
        say(facts["lift"]["text"])
    for metric in facts["metrics"]:
        say(f"{metric['name']}: {metric['text']}")
    if facts["in_force"]:
        say("Every decision is the control's until the policy is resumed.")


@store.command("import")
def store_import(
    name: Annotated[str, typer.Argument(help="The policy, which must be there.", metavar="POLICY")],
    file: Annotated[Path, typer.Argument(help="A log of Vowpal Wabbit in its dsjson format.", metavar="FILE")],
    arm: Annotated[str, typer.Option(help="Where an action has its arm's name: keys with dots between them.")],
    address: StoreOption = _DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Let a policy learn from another system's log.

    It adopts the decisions of the log and learns their rewards. No server may be running.
    """

    async def work(one: Store) -> Any:
        from armtriage.service.dsjson import adopt_log
        from armtriage.service.refusal import Refused
        from armtriage.service.upkeep import policy_of

        row = await policy_of(one, name)
        with open(file, encoding="utf-8", errors="replace") as lines:
            try:
                return await adopt_log(one, row, lines, arm)
            except Refused as refused:
                raise ValueError(refused.detail) from None

    facts = _with_store(address, True, work)
    if as_json:
        _echo(facts)
    else:
        said = ", ".join(f"{count} {what}" for what, count in facts["lines"].items())
        say(f"Lines: {said or 'none'}. The log has {facts['head']} events, state {facts['digest'][:16]}")


@store.command("drop")
def store_drop(
    name: PolicyArgument,
    address: StoreOption = _DEFAULT,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a policy with its whole log.

    No server may be running if the store is SQLite.
    """
    if not yes:
        typer.confirm(f"Delete {name} with all its decisions and rewards, for ever?", abort=True)
    _ask(address, "drop", name, owned=True)
    say(f"{name} is deleted")
