"""The certificate that pods trust, in every namespace."""

from dray.testing.cluster import LocalCluster, kind_of
from dray.testing.objects import namespace

NAME = "kube-root-ca.crt"


async def test_every_namespace_has_what_the_server_wrote():
    async with LocalCluster(controllers=["root-ca-cert-publisher"]) as cluster:
        await cluster.create(namespace("team"))
        found = await cluster.eventually(lambda: cluster.get("ConfigMap", NAME, namespace="team"))
        assert found["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")

        async def is_back(place):
            now = await cluster.get("ConfigMap", NAME, namespace=place)
            return now is not None and now["data"] == found["data"]

        await cluster.client.update(kind_of("ConfigMap"), {**found, "data": {"ca.crt": "another"}})
        await cluster.eventually(lambda: is_back("team"))
        for place in ("team", "kube-system"):
            await cluster.delete("ConfigMap", NAME, namespace=place)
            await cluster.eventually(lambda place=place: is_back(place))


async def test_another_certificate_of_the_server_reaches_all():
    async with LocalCluster(controllers=["root-ca-cert-publisher"]) as cluster:
        await cluster.eventually(lambda: cluster.get("ConfigMap", NAME))
        source = await cluster.get("ConfigMap", NAME, namespace="kube-system")
        await cluster.client.update(kind_of("ConfigMap"), {**source, "data": {"ca.crt": "renewed"}})

        async def is_renewed():
            return (await cluster.get("ConfigMap", NAME))["data"] == {"ca.crt": "renewed"}

        await cluster.eventually(is_renewed)
