"""Allocation: which devices serve which claims on a node, and if none do, why.

    inventory = Inventory(slices=…, classes=…, claims=…)      # compiled once, kept current by put_ and remove_
    answer = allocate(inventory, node, claims)                # reads
    commitment = commit(inventory, answer)                    # writes; commitment.undo() takes it back

Slices become bitsets over devices (`slices`, `pools`, `views`), claims become candidates and constraints (`requests`,
`constraints`), `search` finds the first assignment in the order of Kubernetes and `pruning` keeps it from running
away, `results` writes it down. A rejection carries its `reasons`, which `diagnosis` finds and `text` renders.
"""

from dray.allocation.allocator import Allocation, Commitment, allocate, commit, confirm, examine
from dray.allocation.inventory import Inventory
from dray.allocation.node_resources import ChargeError, NodeCharge, charge
from dray.allocation.policies import FIRST_FIT, KUBERNETES, PACK, PACK_POWER, POLICIES, SPREAD, Policy
from dray.allocation.reasons import Rejection, RejectionKind
from dray.allocation.results import ShareIds, derived_share_id
from dray.allocation.work import ATTEMPT, THOROUGH, Work, WorkExhausted

__all__ = [
    "ATTEMPT",
    "FIRST_FIT",
    "KUBERNETES",
    "PACK",
    "PACK_POWER",
    "POLICIES",
    "SPREAD",
    "THOROUGH",
    "Allocation",
    "ChargeError",
    "Commitment",
    "Inventory",
    "NodeCharge",
    "Policy",
    "Rejection",
    "RejectionKind",
    "ShareIds",
    "Work",
    "WorkExhausted",
    "allocate",
    "charge",
    "commit",
    "confirm",
    "derived_share_id",
    "examine",
]
