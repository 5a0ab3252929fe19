"""The reservations section: what may stand there, and a line for everything that may not."""

from typing import Any

import pytest

from autoscaler.config.load import load
from autoscaler.config.reservations import read_reservations
from autoscaler.errors import ConfigError


def a_target(name: str = "gpu", **fields: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": 2}}}
    return {"name": name, "podTemplate": {"spec": {"containers": [container]}}, **fields}


def problems(*targets: dict[str, Any], **fields: Any) -> tuple[str, ...]:
    try:
        read_reservations({"targets": list(targets), **fields}, -10)
    except ConfigError as error:
        return error.problems
    return ()


def test_the_documented_example_is_fine() -> None:
    target = a_target(
        podSelector="runner-set=gpu",
        podNamespaces=["ci"],
        minReplicas=0,
        maxReplicas=10,
        maxQueued=1000,
        defaultDuration="10m",
        maxDuration="24h",
        priority=0,
        removal="matched",
        github={
            "repositories": ["acme/*"],
            "organizations": ["acme"],
            "labels": ["gpu", "linux", "x64"],
            "allowEmptyLabels": False,
        },
        scheduledOverrides=[],
    )
    found = read_reservations(
        {
            "listen": "0.0.0.0:8095",
            "tls": {"certFile": "", "keyFile": ""},
            "batchWindow": "3s",
            "queueLimit": 100,
            "retryDelays": ["1s", "2s", "4s", "8s", "16s"],
            "giveUpAfter": "1h",
            "store": {"namespace": "kube-system", "prefix": "capacity-reservations-"},
            "replayTTL": "72h",
            "maxBodyBytes": 5242880,
            "auth": {"githubSecrets": [{"file": "a"}], "apiSecrets": [{"file": "b"}], "insecureAllowUnsigned": False},
            "targets": [target],
        },
        -10,
    )
    assert (found.replay_ttl_s, found.retry_delays[-1]) == (259_200.0, 16.0)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"maxReplicas": 1, "minReplicas": 2}, "maxReplicas: 1 is less than minReplicas 2"),
        ({"podTemplate": {"spec": {"containers": []}}}, "podTemplate.spec.containers: there are none"),
        ({"podTemplate": {"spec": {"containers": [{"name": "c"}]}}}, "a pod without requests reserves nothing"),
        ({"podTemplate": {"spec": {**a_target()["podTemplate"]["spec"], "nodeName": "n"}}}, "spec.nodeName: binds"),
        ({"podTemplate": {}}, "needs exactly one of podTemplate and podTemplateRef"),
        ({"podSelector": "a=="}, None),
        ({"podSelector": "a=b=c"}, "is not a label selector"),
        ({"name": "x" * 41}, "is not a DNS label of at most 40 characters"),
        ({"priority": -11}, "is below expendable-pods-priority-cutoff -10"),
        ({"defaultDuration": "25h"}, "defaultDuration: 90000s is not longer than 0s and at most maxDuration"),
        ({"github": {"labels": ["gpu"]}}, "names neither repositories nor organizations"),
        ({"maxReplica": 3}, "maxReplica: unknown key; did you mean maxReplicas?"),
        (
            {"scheduledOverrides": [{"startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T00:00:00Z"}]},
            "scheduledOverrides[0].endTime: is not after startTime",
        ),
        (
            {
                "scheduledOverrides": [
                    {
                        "startTime": "2026-01-01T00:00:00Z",
                        "endTime": "2026-01-02T00:00:01Z",
                        "recurrenceRule": {"frequency": "Daily"},
                    }
                ]
            },
            "longer than its Daily period",
        ),
        (
            {
                "scheduledOverrides": [
                    {
                        "startTime": "2026-01-01T00:00:00Z",
                        "endTime": "2026-01-01T00:00:01Z",
                        "recurrenceRule": {"frequency": "Hourly"},
                    }
                ]
            },
            "recurrenceRule.frequency",
        ),
    ],
)
def test_targets_that_will_not_do(fields: dict[str, Any], says: str | None) -> None:
    found = problems({**a_target(), **fields})
    if says is None:
        assert found == ()
    else:
        (line,) = found
        assert line.startswith("config: reservations.targets[0]")
        assert says in line


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"batchWindow": "6s"}, "batchWindow: 6s is not within 0s..5s"),
        ({"queueLimit": 0}, "queueLimit: 0 would take nothing"),
        ({"retryDelays": []}, "retryDelays: needs one delay or more"),
        ({"tls": {"certFile": "x"}}, "certFile and keyFile belong together"),
        ({"trustedProxies": ["10.0.0.1/8"]}, "is not a network"),
        ({"listen": "nowhere"}, "listen"),
        ({"listen": ":8095"}, "auth: has no secret"),
        ({"listen": "0.0.0.0:8095", "auth": {"insecureAllowUnsigned": True}}, "is not a loopback address"),
    ],
)
def test_intake_that_will_not_do(fields: dict[str, Any], says: str) -> None:
    (line,) = problems(a_target(), **fields)
    assert says in line


def test_c31_this_machine_alone_may_be_listened_to_unsigned() -> None:
    assert problems(a_target(), listen="127.0.0.1:0", auth={"insecureAllowUnsigned": True}) == ()
    assert problems(a_target(), listen="[::1]:0", auth={"insecureAllowUnsigned": True}) == ()


def test_targets_that_no_job_could_tell_apart_are_told() -> None:
    rule = {"repositories": ["acme/*"], "labels": ["gpu", "linux"]}
    twin = {"repositories": ["Acme/*"], "labels": ["linux", "GPU"]}
    (line,) = problems(a_target("a", github=rule), a_target("b", github=twin))
    assert "targets[1].github: patterns and labels are those of targets[0]" in line
    (line,) = problems(a_target("a"), a_target("a"))
    assert "targets[1].name: a is the name of targets[0] too" in line


def test_the_flag_needs_the_section() -> None:
    with pytest.raises(ConfigError, match="there is no reservations section"):
        load(["--reservations-address=:8095"])
