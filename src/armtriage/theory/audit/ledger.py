"""The ledger of an audit: what is claimed, how often it was checked, and where it first broke."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from armtriage.kernels.record import Ints

Arms = Sequence[int] | Ints
HELD, VIOLATED, NOT_APPLICABLE = "held", "violated", "not applicable"
_SHOWN = 12
_NEVER = "it never came up in these runs"


class Claim(NamedTuple):
    """What is claimed of a run, and what came of it in the runs of an `Audit`.

    Examples
    --------
    >>> claim = Claim("N never falls", "Algorithm 1", "violated", 40, 2, 0, 17, (3, 5), "from 4 to 3")
    >>> print(claim.where)
    run 0, round 17, arms 3 5: from 4 to 3; 2 times in 40
    """

    name: str
    source: str
    status: str = HELD  # or "violated" or "not applicable"
    checked: int = 0
    violations: int = 0
    replication: int | None = None  # of the first violation, as are the next three
    round: int | None = None
    arms: tuple[int, ...] = ()
    detail: str = ""  # what was seen; or why it is not applicable
    event: bool = False  # promised, and checked, only while all intervals hold
    printed: bool = False  # the paper says so, and it is known to fail

    @property
    def where(self) -> str:
        """The first violation in words, or why the claim is not applicable."""
        if self.status != VIOLATED:
            return self.detail
        more = f" and {len(self.arms) - _SHOWN} more" if len(self.arms) > _SHOWN else ""
        arms = f"{' '.join(map(str, self.arms[:_SHOWN]))}{more}"
        arms = f", arm{'s' if len(self.arms) > 1 else ''} {arms}" if self.arms else ""
        detail = f": {self.detail}" if self.detail else ""
        times = f"{self.violations} time{'s' if self.violations > 1 else ''} in {self.checked}"
        return f"run {self.replication}, round {self.round}{arms}{detail}; {times}"


class Ledger:
    """Counts, for each claim, how often it was checked and broken, and keeps the first time."""

    def __init__(self, claims: Iterable[Claim]) -> None:
        self._claims = {one.name: one for one in claims}
        self.replication = 0
        self.round = 0

    def exclude(self, name: str, why: str) -> None:
        """Say that a claim is not applicable."""
        self._claims[name] = self._claims[name]._replace(status=NOT_APPLICABLE, detail=why)

    def check(self, name: str, wrong: Arms = (), detail: str = "", holds: bool | None = None) -> None:
        """Enter that a claim was checked: it `holds`, by default if no arm is `wrong`, or broke here."""
        claim = self._claims[name]
        if claim.status == NOT_APPLICABLE:
            return
        if not len(wrong) if holds is None else holds:
            self._claims[name] = claim._replace(checked=claim.checked + 1)
            return
        if claim.status == HELD:
            arms = tuple(int(arm) for arm in wrong)
            place = {"replication": self.replication, "round": self.round, "arms": arms, "detail": detail}
            claim = claim._replace(status=VIOLATED, **place)  # type: ignore[arg-type]
        self._claims[name] = claim._replace(checked=claim.checked + 1, violations=claim.violations + 1)

    def applies(self, name: str) -> bool:
        """Return whether there is such a claim, and it is applicable."""
        return name in self._claims and self._claims[name].status != NOT_APPLICABLE

    def judge(self, name: str, holds: bool, checked: int, violations: int, detail: str) -> None:
        """Enter what came of a claim on all runs together."""
        claim = self._claims[name]._replace(checked=checked, detail=detail)
        if not holds:
            place = {"replication": self.replication, "round": self.round, "violations": violations}
            claim = claim._replace(status=VIOLATED, **place)  # type: ignore[arg-type]
        self._claims[name] = claim

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All claims; what was never checked is not applicable."""
        never = {"status": NOT_APPLICABLE, "detail": _NEVER}
        return tuple(
            one._replace(**never) if one.status == HELD and not one.checked else one  # type: ignore[arg-type]
            for one in self._claims.values()
        )
