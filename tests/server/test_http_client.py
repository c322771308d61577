import subprocess
import sys


def test_others_are_answered_while_the_first_request_to_a_node_loads_the_client():
    command = [sys.executable, "-m", "tests.server.cold_server"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    refused = 'Get "https://127.0.0.1:1/containerLogs/default/p/c": dial tcp 127.0.0.1:1: connect: connection refused'
    assert done.stdout == f"True 500 {refused}\n", done.stderr
