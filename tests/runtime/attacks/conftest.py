"""One daemon for all attacks that do not affect each other; it is checked after each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.lanes import examples
from tests.runtime.attacks.wire import check_unharmed
from tests.runtime.daemon.running import GITHUB, Daemon, running, write_program
from tests.runtime.daemon.v1 import make_token

settings.register_profile("attacks", settings.get_profile("patient"), max_examples=examples(60), database=None)

STRIPE_SECRET = "whsec_of_stripe"
TOKEN_SECRET = "a shared token of some length"
JWT_SECRET = "a secret of thirty-two bytes or more"
PROGRAM = (
    GITHUB
    + """\
webhook stripe { path "/hooks/stripe", provider stripe, secret "secret://env/STRIPE_SECRET", agent reviewer }
webhook open { path "/hooks/open", provider stripe, insecure_allow_unverified true, agent reviewer }
webhook token { path "/hooks/token", provider token, secret "secret://env/TOKEN_SECRET", agent reviewer }
webhook jwt {
    path "/hooks/jwt"
    provider jwt { algorithms HS256 }
    secret "secret://env/JWT_SECRET"
    agent reviewer
}
webhook filtered {
    path "/hooks/filtered"
    provider github
    secret "secret://env/GITHUB_SECRET"
    agent reviewer
    filter { json_path "$.action" equals "opened" }
}
webhook slack { path "/hooks/slack", provider slack, secret "secret://env/STRIPE_SECRET", agent reviewer }
webhook dropbox { path "/hooks/dropbox", provider dropbox, secret "secret://env/STRIPE_SECRET" }
webhook meta {
    path "/hooks/meta"
    provider meta { verify_token "secret://env/TOKEN_SECRET" }
    secret "secret://env/STRIPE_SECRET"
}
webhook twitter { path "/hooks/twitter", provider twitter, secret "secret://env/STRIPE_SECRET" }
webhook graph { path "/hooks/graph", provider microsoft-graph, secret "secret://env/TOKEN_SECRET" }
webhook okta { path "/hooks/okta", provider okta, secret "secret://env/TOKEN_SECRET" }
webhook azure { path "/hooks/azure", provider azure-event-grid, secret "secret://env/TOKEN_SECRET" }
webhook zoom { path "/hooks/zoom", provider zoom, secret "secret://env/STRIPE_SECRET" }
webhook shop { path "/hooks/shop", provider woocommerce, secret "secret://env/STRIPE_SECRET" }
"""
)
SECRETS = {"STRIPE_SECRET": STRIPE_SECRET, "TOKEN_SECRET": TOKEN_SECRET, "JWT_SECRET": JWT_SECRET}


@pytest.fixture(scope="session")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("attacked")
    write_program(root, PROGRAM)
    with running(root, "program", wait=True, **SECRETS) as started:
        assert started.readyz().json()["not_mounted"] == []
        yield started


@pytest.fixture
def daemon(shared_daemon: Daemon) -> Iterator[Daemon]:
    """The attacked daemon; it must be unharmed after each test."""
    before = shared_daemon.log.stat().st_size
    yield shared_daemon
    check_unharmed(shared_daemon, before)


@pytest.fixture(scope="session")
def token(shared_daemon: Daemon) -> str:
    """A token of the owner."""
    return make_token(shared_daemon, "--scope", "write")
