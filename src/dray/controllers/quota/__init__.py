"""ResourceQuotas: how much of what a namespace may have is taken.

`charges` says what an object takes, under the names that quotas use, `scopes` which pods a quota is about, `names` what
objects a name counts, `controller` keeps the sums in the status. What devices a claim takes is computed where the
server's admission computes it.
"""

from dray.controllers.quota.controller import QuotaController

__all__ = ["QuotaController"]
