"""Refusals: every way in which the service says no, by name, with its status."""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

_FEW = 5  # names that are listed
_LONGEST = 60  # characters of a value that are repeated
_UNSAFE = re.compile(r"[<>&](?!= )")  # "at least" may stay

CODES: Mapping[str, tuple[int, str]] = {
    "malformed": (400, "The body is not JSON."),
    "duplicate_key": (400, "An object has the same key twice."),
    "unauthorized": (
        401,
        "A key is needed: send the header Authorization: Bearer at_..., as `armtriage key new` printed it.",
    ),
    "forbidden": (403, "The key may not do this."),
    "not_found": (404, "There is nothing of this name."),
    "orphan": (404, "There is no such decision; its rewards are held for a day, in case it comes."),
    "unknown_decision": (404, "There is no such decision."),
    "method": (405, "This address does not take the method; the header Allow names those that it takes."),
    "slow": (408, "The body did not arrive in time."),
    "id_taken": (409, "The id belongs to a decision that was asked for with another body."),
    "name_taken": (409, "There is a policy of this name."),
    "conflict": (409, "A reward with this id has another value; nothing was changed."),
    "paused": (409, "The policy is paused, and makes no decisions."),
    "window_missing": (409, "The lift of other shares cannot be added up: ask for a new window."),
    "archived": (410, "The policy is archived: it can be read, and no more."),
    "too_large": (413, "The body is larger than a megabyte."),
    "invalid": (422, "The body is JSON, but not what is asked for."),
    "unknown_arm": (422, "No arm has this name."),
    "not_shown": (422, "A reward is for an arm that the decision does not show."),
    "too_many_rewards": (422, "So many rewards of this decision came late or early that no more are stored."),
    "out_of_range": (422, "A reward lies outside the range of rewards."),
    "shown_missing": (422, "The policy is observing, and the request does not say what is shown."),
    "unit_missing": (422, "Groups are by unit, and the request has none."),
    "nothing_eligible": (422, "No decision can be made of the arms that are eligible."),
    "too_many": (429, "More requests than the key may make; try again later."),
    "internal": (500, "The service failed; nothing was acknowledged that is not stored."),
    "unsound": (500, "The request would have made numbers that cannot be; it is not stored, and nothing has changed."),
    "not_installed": (501, "This needs a package that the server lacks."),
    "busy": (503, "More requests wait than can be answered soon; try again."),
    "starting": (503, "The policy is being loaded; try again."),
    "store": (503, "The store failed; repeat with the same id to learn what happened."),
    "too_many_open": (503, "Decisions that wait for rewards take all the memory that a policy's may."),
    "disk_full": (507, "The disk is full; repeat with the same id when it is not."),
}
"""Each code of an error, its HTTP status, and what it means."""


class Refused(Exception):
    """A request that is answered with an error; `request` is the id under which the log has it, if it is there.

    Examples
    --------
    >>> refused = Refused("paused")
    >>> refused.status, json.loads(refused.body())["error"]
    (409, 'paused')
    """

    def __init__(
        self, code: str, detail: str = "", *, fates: Mapping[str, str] | None = None, retry: int | None = None
    ) -> None:
        self.status, meaning = CODES[code]
        self.code, self.detail, self.fates = code, detail or meaning, fates
        self.request = secrets.token_hex(8)
        self.retry = 1 if retry is None and self.status in (429, 503, 507) else retry
        super().__init__(f"{code}: {self.detail}")

    def body(self) -> bytes:
        """Return the answer's body."""
        said: dict[str, object] = {"error": self.code, "detail": self.detail, "request": self.request}
        if self.fates is not None:
            said["fates"] = dict(self.fates)
        return json.dumps(said).encode("ascii")


def quoted(value: object) -> str:
    r"""Return a value of a request as JSON writes it, cut where it is long, with nothing in it that a page would obey.

    Examples
    --------
    >>> print(quoted("<b>tea"), quoted([0.5, None]), quoted("x" * 1000)[-8:])
    "\u003cb\u003etea" [0.5, null] xxxxx...
    """
    return _cut(json.dumps(value, default=repr))


def some_of(names: Iterable[str]) -> str:
    """Return the first of some names, and how many more there are.

    Examples
    --------
    >>> some_of(f"arm-{number}" for number in range(100))
    '"arm-0", "arm-1", "arm-2", "arm-3", "arm-4" and 95 more'
    """
    every = list(names)
    rest = f" and {len(every) - _FEW:,} more" if len(every) > _FEW else ""
    return ", ".join(map(quoted, every[:_FEW])) + rest


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that are there more than once.

    Examples
    --------
    >>> repeated(["tea", "milk", "tea"])
    ['tea']
    """
    return [name for name, times in Counter(names).items() if times > 1]


def refuse_repeated(argument: str, names: Sequence[str]) -> None:
    """Refuse names of which one is there more than once: what it earned could not be told apart."""
    if len(set(names)) < len(names):
        raise Refused("invalid", f"{argument} must have different names, got {some_of(repeated(names))} twice")


def said(error: Exception) -> str:
    r"""Return what the library says of bad input; what the input was is cut where it is long, and does no harm.

    Examples
    --------
    >>> print(said(ValueError("budget must be at most 5, got '<script>'")))
    budget must be at most 5, got '\u003cscript\u003e'
    """
    accepted, got, value = str(error).partition(", got ")
    return _cut(accepted, 300) + (f"{got}{_cut(value)}" if got else "")


def _cut(text: str, longest: int = _LONGEST) -> str:
    safe = text.encode("ascii", "backslashreplace").decode()
    safe = safe if safe.isprintable() else json.dumps(safe)[1:-1]
    safe = _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", safe)
    return safe if len(safe) <= longest else f"{safe[:longest]}..."
