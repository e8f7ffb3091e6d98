"""Rules that every image keeps."""

import re
import tomllib

import pytest

from tests.manifests.rendering import ROOT

SERVICES = ("agent", "scheduler", "healthd")
every_service = pytest.mark.parametrize("service", SERVICES)


def dockerfile(service: str) -> str:
    return (ROOT / "services" / service / "Dockerfile").read_text()


def locked(service: str) -> str:
    return (ROOT / "services" / service / "requirements.txt").read_text()


@every_service
def test_an_image_runs_its_service_without_root_unless_it_is_the_agent(service: str) -> None:
    last = dockerfile(service).rpartition("\nFROM ")[2]
    assert f'ENTRYPOINT ["sublet-{service}"]' in last
    assert ("USER 65532:65532" in last) == (service != "agent")


@every_service
def test_an_image_installs_nothing_that_is_not_locked(service: str) -> None:
    """A lock without hashes, or one that is behind pyproject.toml, would not be what the tests ran on."""
    installs = [line for line in dockerfile(service).splitlines() if "pip" in line and " install " in line]
    assert installs
    assert all("--no-deps" in line for line in installs)
    assert all("--require-hashes" in line or ".whl" in line for line in installs)
    versions = set(re.findall(r"^([A-Za-z0-9_.-]+)==", locked(service), flags=re.MULTILINE))
    assert _wanted(service) <= {_normal(name) for name in versions}


def test_the_agents_image_has_no_http_library_that_its_bus_client_would_load() -> None:
    """nats-py imports aiohttp wherever it finds it, for websockets; that is 10 MiB on every node."""
    assert "aiohttp==" not in locked("agent")


@every_service
def test_an_image_starts_from_a_named_version(service: str) -> None:
    bases = re.findall(r"^FROM (\S+)", dockerfile(service), flags=re.MULTILINE)
    assert set(bases) == {"python:3.13-slim"}


def _wanted(service: str) -> set[str]:
    """The distributions that a service's extra names, with those of the extras of ours that it includes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {_name(line) for line in project["dependencies"]}
    waiting = [service]
    while waiting:
        for line in project["optional-dependencies"][waiting.pop()]:
            if _name(line) == "sublet":
                waiting += re.findall(r"\[(.*)\]", line)[0].split(",")
            else:
                names.add(_name(line))
    return names


def _name(requirement: str) -> str:
    return _normal(re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
