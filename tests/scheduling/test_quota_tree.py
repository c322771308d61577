"""QuotaTree against the formulas of Kueue, written down as they are defined."""

from hypothesis import given
from hypothesis import strategies as st

from dray.scheduling.quota.quota_tree import Asset, Quota, QuotaTree

A = Asset("any", "gpu")
LIMIT = st.none() | st.integers(0, 12)
QUOTAS = st.builds(Quota, st.integers(0, 12), LIMIT, LIMIT)


class Plain:
    """Nodes by name with the one above and their quota; everything is reckoned anew for every question."""

    def __init__(self, cohorts, queues):
        self.above = {**{name: above for name, above, _ in cohorts}, **{name: above for name, above, _ in queues}}
        self.quota = {**{name: quota for name, _, quota in cohorts}, **{name: quota for name, _, quota in queues}}
        self.own = {}

    def below(self, name):
        return [each for each, above in self.above.items() if above == name]

    def total(self, name):
        return self.quota[name].nominal + sum(self.total(each) - self.kept(each) for each in self.below(name))

    def kept(self, name):
        lending = self.quota[name].lending
        return max(0, self.total(name) - lending) if lending is not None else 0

    def used(self, name):
        below = sum(max(0, self.used(each) - self.kept(each)) for each in self.below(name))
        return self.own.get(name, 0) + below

    def available(self, name):
        if not self.above[name]:
            return self.total(name) - self.used(name)
        kept, used = self.kept(name), self.used(name)
        lent = self.available(self.above[name])
        if (limit := self.quota[name].borrowing) is not None:
            lent = min(lent, self.total(name) - kept - max(0, used - kept) + limit)
        return max(0, kept - used) + lent

    def entitled(self, name, amount):
        while name:
            if self.used(name) + amount <= self.total(name):
                return name
            amount = max(0, amount - max(0, self.kept(name) - self.used(name)))
            name = self.above[name]
        return None


@st.composite
def trees(draw):
    cohorts = []
    for number in range(draw(st.integers(1, 4))):
        above = draw(st.sampled_from([name for name, _, _ in cohorts])) if cohorts else ""
        cohorts.append((f"c{number}", above, draw(QUOTAS) if above else Quota(draw(st.integers(0, 12)))))
    names = st.sampled_from([name for name, _, _ in cohorts])
    queues = [(f"q{number}", draw(names), draw(QUOTAS)) for number in range(draw(st.integers(1, 5)))]
    return cohorts, queues


@given(trees(), st.data())
def test_what_is_kept_up_to_date_is_what_the_formulas_give(tree, data):
    cohorts, queues = tree
    plain, kept = Plain(cohorts, queues), QuotaTree()
    for name, above, quota in queues:
        kept.put_queue(name, {A: quota}, above)
    for name, above, quota in cohorts:
        kept.put_cohort(name, {A: quota}, above)
    for _ in range(data.draw(st.integers(0, 8))):
        name = data.draw(st.sampled_from([name for name, _, _ in queues]))
        amount = data.draw(st.integers(-plain.own.get(name, 0), 9))
        plain.own[name] = plain.own.get(name, 0) + amount
        kept.charge(name, {A: amount}, 1)
        if data.draw(st.booleans()):
            changed, above, quota = data.draw(st.sampled_from(cohorts))
            kept.put_cohort(changed, {A: quota}, above)
    for name, _, _ in queues:
        assert kept.available(name, A) == plain.available(name)
        assert kept.node(name).total(A) == plain.total(name)
        amount = data.draw(st.integers(0, 9))
        entitled = kept.node(name).entitled({A: amount})
        assert (entitled.name if entitled is not None else None) == plain.entitled(name, amount)
