"""Hints: a word that is near, or none."""

import pytest

from autoscaler.config.flags import flags
from cloudprovider.nearest import nearest

EXPANDERS = ("random", "most-pods", "least-nodes", "least-waste", "price", "cost", "priority", "grpc")
PROVIDERS = ("aws", "azure", "clusterapi", "externalgrpc", "gce", "kwok", "static")
FLAGS = tuple(f"--{name}" for name in flags())


@pytest.mark.parametrize(
    ("word", "words", "hint"),
    [
        pytest.param("leats-waste", EXPANDERS, "least-waste", id="two letters swapped"),
        pytest.param("awz", PROVIDERS, "aws", id="one letter of three"),
        pytest.param("AWS", PROVIDERS, "aws", id="upper case"),
        pytest.param("--expandr", FLAGS, "--expander", id="a letter is missing"),
        pytest.param("--kube-config", FLAGS, "--kubeconfig", id="a dash too many"),
        pytest.param("expander", FLAGS, "--expander", id="no dashes"),
        pytest.param("--scale-down-unneeded", FLAGS, "--scale-down-unneeded-time", id="the rest is missing"),
        pytest.param("--version", FLAGS, None, id="far from every flag"),
        pytest.param("--leader", FLAGS, None, id="begins several flags"),
        pytest.param("--x", FLAGS, None, id="one letter is not a misspelling of another"),
        pytest.param("ec2", PROVIDERS, None, id="another word"),
        pytest.param("spot", EXPANDERS, None, id="another short word"),
        pytest.param("", EXPANDERS, None, id="nothing"),
        pytest.param("x", (), None, id="nothing to choose from"),
    ],
)
def test_a_hint_names_a_word_that_is_near(word: str, words: tuple[str, ...], hint: str | None) -> None:
    assert nearest(word, words) == (f"; did you mean {hint}?" if hint else "")


@pytest.mark.parametrize(("word", "known"), [("ca", "abc"), ("abcd", "dcba")])
def test_edits_are_counted(word: str, known: str) -> None:
    assert nearest(word, [known]) == ""
