"""Where the API server is and who we are there: kubeconfig or the pod's own service account.

The only user of kubernetes-asyncio, which knows the many forms of a kubeconfig; requests and bodies are ours.
"""

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog
import yaml
from kubernetes_asyncio import config
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config.config_exception import ConfigException

from sublet.model.errors import BadRequest

log = structlog.get_logger()

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts a pod's token and the API server's CA."""
USUAL = "~/.kube/config"
DAMAGED = (yaml.YAMLError, TypeError, AttributeError, KeyError)
"""What the reader of kubeconfigs raises on a file that is none, such as an empty one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """An API server's address and how to prove who we are."""

    url: str
    tls: ssl.SSLContext | None = None
    """Trust and client certificate; None speaks plain HTTP."""
    server_name: str | None = None
    authorization: Callable[[], Awaitable[str]] | None = None
    """The Authorization header for the next request; asked each time because tokens rotate."""


async def find_access(
    *,
    env: Mapping[str, str],
    kubeconfig: Path | None = None,
    context: str | None = None,
    account: Path = SERVICE_ACCOUNT,
) -> Access:
    """Read the kubeconfig given, else `$KUBECONFIG`, else the pod's service account, else `~/.kube/config`.

    Raises:
        BadRequest: there is none of them, or the one found is unreadable.
    """
    settings = Configuration()
    chosen = str(kubeconfig) if kubeconfig else env.get("KUBECONFIG") or None
    in_cluster = chosen is None and "KUBERNETES_SERVICE_HOST" in env
    try:
        if in_cluster:
            config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=settings,
                environ=env,
                token_filename=str(account / "token"),
                cert_filename=str(account / "ca.crt"),
            )
        else:
            _expect_a_file(chosen or USUAL)
            await config.load_kube_config(
                config_file=chosen or USUAL,
                context=context,
                client_configuration=settings,
                persist_config=False,
            )
    except DAMAGED as error:
        where = chosen or USUAL
        raise BadRequest(
            f"{where} is not a kubeconfig", hint="Name one with --kubeconfig FILE or in KUBECONFIG"
        ) from error
    except (ConfigException, OSError, ValueError) as error:
        where = chosen or USUAL
        raise BadRequest(
            f"no way to the Kubernetes API found: {error}", hint=f"Check {where} or pass --kubeconfig"
        ) from error
    return _access(settings)


def _expect_a_file(paths: str) -> None:
    """Of several files in one text, as `$KUBECONFIG` may name, one is enough."""
    if not any(Path(one).expanduser().exists() for one in paths.split(os.pathsep) if one):
        raise BadRequest(
            f"no kubeconfig: the file {paths} does not exist",
            hint="Name one that exists with --kubeconfig FILE or in KUBECONFIG",
        )


def _access(settings: Configuration) -> Access:
    url = str(settings.host).rstrip("/")
    return Access(
        url=url,
        tls=_tls(settings) if url.startswith("https://") else None,
        server_name=settings.tls_server_name,
        authorization=_authorization(settings),
    )


def _tls(settings: Configuration) -> ssl.SSLContext:
    tls = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    if settings.cert_file:
        tls.load_cert_chain(settings.cert_file, keyfile=settings.key_file)
    if not settings.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


def _authorization(settings: Configuration) -> Callable[[], Awaitable[str]]:
    last = ""

    async def authorization() -> str:
        nonlocal last
        try:
            # re-reads the mounted token at most once a minute
            last = (await settings.get_api_key_with_prefix("BearerToken") or "").strip()
        except (ConfigException, OSError) as error:
            log.warning("token.unreadable", error=repr(error))
        return last

    return authorization
