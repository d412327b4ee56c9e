"""Which sources of settings may be combined: a key never goes where its owner did not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tk_ai_extension.agent.claude.sources import (
    ADDRESS,
    CREDENTIALS,
    DESTINATIONS,
    Given,
    ProviderName,
    Source,
    is_identity,
    resolve,
)
from tk_ai_extension.agent.environment import matches

LEADS_ELSEWHERE = (
    *("*_BASE_URL", "*_URL", "*_ENDPOINT*", "*_proxy", "*_PROXY", "NODE_*", "SSL_CERT_*"),
    *("*_CONFIG_FILE", "*_PROFILE", "*_SOCKET", "*_HELPER", "*_CONFIG_DIR", "AWS_CA_BUNDLE"),
)
"""What names an address, a certificate that one is believed by, or a file that may name a program."""

NAMES = (
    *CREDENTIALS,
    *("ANTHROPIC_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL"),
    *("ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_UNIX_SOCKET", "ANTHROPIC_PROFILE", "ANTHROPIC_MODEL"),
    *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
    *("CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR", "CLAUDE_CODE_CLIENT_KEY", "CLAUDE_CODE_PROXY_URL"),
    *("AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_REGION"),
    *("AWS_ENDPOINT_URL", "AWS_CA_BUNDLE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "CLOUD_ML_REGION", "GOOGLE_CLOUD_PROJECT"),
    *("HTTPS_PROXY", "https_proxy", "NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", "PATH", "LD_PRELOAD"),
)


def values(source: str) -> st.SearchStrategy[dict[str, str]]:
    """What a source may say; each value names its source."""
    return st.dictionaries(
        st.sampled_from(NAMES), st.sampled_from(["1", f"https://{source}.example", "", source])
    )


def unnamed(values: Mapping[str, str]) -> dict[str, str]:
    """What a source says besides who asks."""
    return {name: value for name, value in values.items() if not is_identity(name)}


ALL = Given(
    environment=dict.fromkeys(NAMES, "environment"),
    user=dict.fromkeys(NAMES, "user"),
    project=dict.fromkeys(NAMES, "project"),
)


SOURCES = st.builds(
    Given,
    base_url=st.sampled_from(["", "https://settings.example"]),
    environment=values("environment"),
    user=values("user"),
    project=values("project"),
    stored=values("stored"),
)
WANTED = st.sampled_from(["auto", *get_args(ProviderName)])


@pytest.mark.proves("threat:project-keys", "connect:address")
@settings(max_examples=400, deadline=None)
@given(given_sources=SOURCES, wanted=WANTED)
@example(given_sources=ALL, wanted="auto")
@example(
    given_sources=Given(
        environment={"ANTHROPIC_API_KEY": "environment"},
        project={"ANTHROPIC_BASE_URL": "https://project.example", "ANTHROPIC_MODEL": "m"},
    ),
    wanted="auto",
)
@example(
    given_sources=Given(
        environment={"ANTHROPIC_CUSTOM_HEADERS": "environment"},
        user={"ANTHROPIC_BASE_URL": "https://user.example"},
        project={"ANTHROPIC_API_KEY": "project"},
    ),
    wanted="auto",
)
def test_no_key_goes_where_a_less_trusted_source_says(
    given_sources: Given, wanted: ProviderName
) -> None:
    assert_each_key_goes_where_its_owner_says(given_sources, wanted)


@pytest.mark.soak
@pytest.mark.proves("threat:project-keys")
@settings(max_examples=20_000, deadline=None)
@given(given_sources=SOURCES, wanted=WANTED)
def test_no_key_goes_there_however_long_it_is_searched(
    given_sources: Given, wanted: ProviderName
) -> None:
    assert_each_key_goes_where_its_owner_says(given_sources, wanted)


def assert_each_key_goes_where_its_owner_says(given_sources: Given, wanted: ProviderName) -> None:
    """The rules, of whatever the sources say."""
    found = resolve(given_sources, wanted)
    keys = {value.source for name, value in found.values.items() if is_identity(name)}
    ways = {
        value.source for name, value in found.values.items() if matches(name, LEADS_ELSEWHERE)
    } - {None}
    # One source says who asks, and none below it where that goes.
    assert len(keys) <= 1
    if keys:
        assert max(ways, default=Source.SETTINGS) <= max(keys)
    for name, value in found.values.items():
        assert given_sources.of(value.source)[name] == value.text
        if value.source is Source.PROJECT:
            assert name in CREDENTIALS
    if found.credentials is not None:
        assert keys <= {found.credentials}
    # The panel's key goes to the address that it was entered for.
    if Source.STORED in keys:
        entered = given_sources.of(Source.STORED)
        assert found.uses_stored
        assert {n: found.text(n) for n in found.values if matches(n, DESTINATIONS)} == {
            n: value for n, value in entered.items() if n == ADDRESS and n in found.values
        }
        assert found.text(ADDRESS) == entered.get(ADDRESS, "") or found.provider == "bedrock"
    # A project chooses neither who is asked nor by which model.
    without = Given(
        given_sources.base_url,
        given_sources.environment,
        given_sources.user,
        stored=given_sources.stored,
    )
    if found.credentials is not Source.PROJECT:
        assert resolve(without, wanted) == found
    elif wanted != "auto":
        assert found.provider == wanted
    else:
        # Headers of another source than the address are not sent there: a project's key may be.
        address = Given(
            given_sources.base_url,
            unnamed(given_sources.environment),
            unnamed(given_sources.user),
            stored=unnamed(given_sources.stored),
        )
        asked = {resolve(without).provider, resolve(address).provider}
        assert found.provider in {*asked, "anthropic", "oauth"}


@pytest.mark.proves("threat:project-keys")
def test_a_project_s_key_is_not_mixed_with_the_environment_s() -> None:
    bedrock = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"}
    found = resolve(Given(environment=bedrock, project={"AWS_ACCESS_KEY_ID": "p"}))
    assert found.credentials is Source.PROJECT
    mine = {**bedrock, "AWS_PROFILE": "mine"}
    found = resolve(Given(environment=mine, project={"AWS_ACCESS_KEY_ID": "p"}))
    assert found.credentials is Source.ENVIRONMENT
    assert "AWS_ACCESS_KEY_ID" not in found.values
    headers = {"ANTHROPIC_CUSTOM_HEADERS": "Authorization: mine"}
    found = resolve(Given(environment=headers, project={"ANTHROPIC_API_KEY": "p"}))
    assert found.values.keys() == {"ANTHROPIC_API_KEY"}


def test_a_key_may_go_to_an_address_of_somebody_who_is_trusted_more() -> None:
    project = {"ANTHROPIC_API_KEY": "p"}
    for given_, source in (
        (Given("https://s.example", project=project), Source.SETTINGS),
        (
            Given(environment={"ANTHROPIC_BASE_URL": "https://e.example"}, project=project),
            Source.ENVIRONMENT,
        ),
        (Given(user={"ANTHROPIC_BASE_URL": "https://u.example"}, project=project), Source.USER),
    ):
        found = resolve(given_)
        assert (found.provider, found.values["ANTHROPIC_BASE_URL"].source) == ("compatible", source)
