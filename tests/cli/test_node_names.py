"""Commands refuse names that no node and no server can have, before they start anything."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dray.cli.apiserver import apiserver
from dray.cli.node import node


@pytest.mark.parametrize("name", ["*.default.svc", "a b", "VM", "x_y", "n."])
def test_names_of_nodes_are_dns_subdomains(name, tmp_path):
    ended = CliRunner().invoke(node, ["--node-name", name, "--root", str(tmp_path)])
    assert ended.exit_code == 2
    assert "must be a DNS subdomain" in ended.output


@pytest.mark.parametrize("name", ["*.example.com", "a b", "https://a"])
def test_names_of_servers_are_hosts_or_addresses(name):
    ended = CliRunner().invoke(apiserver, ["--name", name])
    assert ended.exit_code == 2
    assert "must be an IP address or a DNS subdomain" in ended.output
