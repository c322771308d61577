"""Usage of ResourceQuotas for admission: `ledger` adds up what the objects of a namespace take by the rules of
`dray.api.quota`, `usage` keeps ledgers by the store.
"""
