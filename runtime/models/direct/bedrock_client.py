"""Amazon's library for Bedrock, opened with the program's keys alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.config import Config
from botocore.session import Session
from botocore.tokens import FrozenAuthToken

from runtime.models.direct.request_body import request_body
from runtime.outbound.http import CONNECT_SECONDS

# Name in a file, name of the variable, default, conversion: neither files nor variables are read.
_OWN = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}


def bedrock_client(region: str, url: str, keys: Mapping[str, str], seconds: float, extra: Mapping[str, Any]) -> Any:
    """Return a client of the runtime that makes each call once. `seconds`: at most for each part of an answer. `extra`:
    fields that are added to each request."""
    token = keys.get("api_key")
    session = boto3.Session(
        botocore_session=Session(_OWN) if token is None else _TokenSession(token),
        aws_access_key_id=keys.get("access_key_id") if token is None else None,
        aws_secret_access_key=keys.get("secret_access_key") if token is None else None,
        aws_session_token=keys.get("session_token") if token is None else None,
        region_name=region,
    )
    config = Config(
        read_timeout=seconds,
        connect_timeout=min(seconds, CONNECT_SECONDS),
        retries={"total_max_attempts": 1},
        proxies={},
        signature_version="bearer" if token is not None else None,
    )
    client = session.client("bedrock-runtime", config=config, endpoint_url=url)

    def extend(params: dict[str, Any], **_: Any) -> None:
        params["body"] = request_body(params["body"], extra)

    # Before the request is signed.
    client.meta.events.register("before-call.bedrock-runtime", extend)
    return client


class _TokenSession(Session):  # type: ignore[misc]
    """A session whose only credential is an API key."""

    def __init__(self, token: str) -> None:
        super().__init__(_OWN)
        self._token = token

    def get_auth_token(self, **_: Any) -> FrozenAuthToken:
        return FrozenAuthToken(self._token)

    def get_credentials(self) -> None:
        return None
