"""The daemon scales a cloud that another process serves over gRPC."""

import signal
from pathlib import Path

from cloudprovider.catalog import create_provider
from cloudprovider.externalgrpc.server import Server
from cloudprovider.interface import ProviderContext
from tests.e2e.replica import Process, Replica, Sandbox, a_cloud, free_port, now_wall, until

_GROUPS = """
groups:
  - {id: web, minSize: 0, maxSize: 9, template: {capacity: {cpu: "1", memory: 4Gi}}}
"""


def test_pods_get_nodes_of_a_served_cloud_and_what_is_left_empty_goes(tmp_path: Path) -> None:
    cloud = a_cloud("web")
    server = Server(cloud, "127.0.0.1:0", now=now_wall)
    server.start()
    config = tmp_path / "cloud.yaml"
    config.write_text(f"{{address: '127.0.0.1:{server.port}', grpc_timeout: 30s}}")
    flags = (
        "--cloud-provider=externalgrpc",
        f"--cloud-config={config}",
        "--scale-down-unneeded-time=1s",
        "--scale-down-delay-after-add=1s",
        "--scale-down-unready-time=1s",
    )
    try:
        with Sandbox(tmp_path, cloud) as sandbox:
            sandbox.deploy("web", 3)
            with Replica(sandbox.kubeconfig, *flags) as replica:
                sandbox.until_running(3)
                assert sandbox.targets() == {"web": 3}
                groups = replica.json("/api/v1/groups")["items"]
                assert [(group["id"], group["targetSize"]) for group in groups] == [("web", 3)]
                sandbox.deploy("web", 1)
                until(lambda: sandbox.targets() == {"web": 1}, "the empty nodes are gone")
                until(lambda: len(sandbox.nodes()) == 1, "and their objects too")
                assert sandbox.running() == 1
                assert replica.stop() == 0
    finally:
        server.stop()


def test_the_command_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    groups, config, port = tmp_path / "groups.yaml", tmp_path / "cloud.yaml", free_port()
    groups.write_text(_GROUPS)
    config.write_text(f"{{address: '127.0.0.1:{port}', grpc_timeout: 60s}}")
    words = ("provider", "serve", f"--listen=127.0.0.1:{port}", "--cloud-provider=static", f"--cloud-config={groups}")
    with Process(tmp_path, *words) as server:
        server.until_says("provider.served")
        client = create_provider("externalgrpc", ProviderContext(config_file=str(config)))
        client.refresh(0.0)
        (group,) = client.groups()
        group.increase(2)
        assert (group.id, group.target_size()) == ("web", 2)
        client.close()
        server.send(signal.SIGTERM)
        assert server.end() == 0
    assert "Traceback" not in server.err


def test_a_served_provider_may_keep_its_state_in_a_cluster(tmp_path: Path) -> None:
    port, config = free_port(), tmp_path / "cloud.yaml"
    config.write_text(f"{{address: '127.0.0.1:{port}', grpc_timeout: 60s}}")
    with Sandbox(tmp_path, kwok_min=1) as sandbox:
        flags = (f"--listen=127.0.0.1:{port}", "--cloud-provider=kwok", f"--kubeconfig={sandbox.kubeconfig}")
        with Process(tmp_path, "provider", "serve", *flags) as server:
            server.until_says("provider.served")
            client = create_provider("externalgrpc", ProviderContext(config_file=str(config)))
            client.refresh(0.0)
            assert [group.target_size() for group in client.groups()] == [1]
            assert len(sandbox.nodes()) == 1
            client.close()
            server.send(signal.SIGTERM)
            assert server.end() == 0
        assert sandbox.nodes() == [], "the provider cleans up behind itself"
