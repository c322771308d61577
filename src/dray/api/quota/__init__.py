"""ResourceQuotas: what objects take of them, the same for admission and for the controller that writes their status.

`charges` says what an object takes, under the names that quotas use, `scopes` which pods a quota is about, `names` what
objects a name counts, `constraints` what pods must state where a quota limits it.
"""
