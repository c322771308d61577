"""ResourceQuotas: what objects take of them, for admission and for the controller that writes their status.

`charges` says what an object takes, under the names that quotas use, `scopes` which pods a quota is about, `names` what
objects a name counts. `ledger` adds up what the objects of a namespace take, `usage` keeps ledgers by the store.
"""
