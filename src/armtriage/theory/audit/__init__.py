"""audit: play a policy where the truth is known, and check in every round what is claimed of it."""

from armtriage.theory.audit.audit import Audit, audit, clopper_pearson
from armtriage.theory.audit.ledger import Claim

__all__ = ["Audit", "Claim", "audit", "clopper_pearson"]
