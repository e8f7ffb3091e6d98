"""What healthd can be told from outside: each field is ``SUBLET_<FIELD>`` in the environment."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from sublet.model.errors import BadRequest
from sublet.model.health import Mode
from sublet.runtime.settings import read_settings
from sublet_healthd.core.policy import Policy
from sublet_healthd.core.policyfile import DEFAULT, PRESETS, parse_policy, preset

EFFECTS = ("", "None", "NoSchedule")
MARKED = ("gpushare", "volcano")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    nats_url: str = "nats://nats.sublet-system:4222"
    kubeconfig: str = ""
    """Empty: the pod's service account."""
    namespace: str = "sublet-system"
    """Where healthd runs; Kubernetes Events name it as their reporter's."""
    cluster: str = ""
    """What public events call this cluster; empty: the UID of its namespace kube-system."""
    mode: Mode = Mode.ENFORCE
    idle_grace_s: float = 15.0
    """How long a closed card must be seen empty; longer than the kubelet takes to show a pod it admitted."""
    probation_s: float = 60.0
    silence_s: float = 90.0
    """Several polls and heartbeats may be missed before a card counts as unknown."""
    reconcile_s: float = 60.0
    """How long an annotation or condition that somebody else changed may stand."""
    policy: str = DEFAULT
    """A preset (`catalogue`, `device-plugin`, `eks`) or the path of a policy."""
    elect: bool = False
    """Several replicas, of which the one that has the Lease judges; without it only one replica may run."""
    evict: bool = False
    """Evict the pods on a card that is condemned, as far as their disruption budgets let it."""
    device_taints: str = ""
    """Effect of a DeviceTaintRule for each card that takes no new shares: None or NoSchedule; empty: none."""
    marks: tuple[str, ...] = ()
    """Other systems that are told of cards to leave out: gpushare, volcano."""
    card_labels: bool = False
    """Label nodes with their cards as NVIDIA's GPU feature discovery does."""
    name_pods: bool = False
    """Public health events name the pods on the card."""
    probe_host: str = "0.0.0.0"  # noqa: S104 - the kubelet calls the pod's address
    probe_port: int = 8080
    log_level: str = "info"

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Raises BadRequest for an unknown name, a value of another type, or one that is not positive."""
        settings = read_settings(cls, env)
        if settings.device_taints not in EFFECTS:
            raise BadRequest(
                f"SUBLET_DEVICE_TAINTS={settings.device_taints!r} is neither None nor NoSchedule",
                hint="Leave it away to write no DeviceTaintRules",
            )
        if unknown := sorted(set(settings.marks) - set(MARKED)):
            raise BadRequest(
                f"SUBLET_MARKS names {', '.join(map(repr, unknown))}", hint=f"Known: {', '.join(MARKED)}"
            )
        return settings


def read_policy(settings: Settings) -> Policy:
    """The policy with the delays and the mode of `settings`.

    Raises:
        BadRequest: the file is not there or holds no policy.
    """
    try:
        named = settings.policy or DEFAULT
        policy = preset(named) if named in PRESETS else parse_policy(Path(named).read_text())
    except (OSError, ValueError) as error:
        raise BadRequest(
            f"SUBLET_POLICY={settings.policy!r} cannot be read: {error}",
            hint=f"Write the path of a policy, or one of {', '.join(PRESETS)}",
        ) from None
    timing = replace(
        policy.timing,
        idle_grace_ms=round(settings.idle_grace_s * 1000),
        probation_ms=round(settings.probation_s * 1000),
        silence_ms=round(settings.silence_s * 1000),
    )
    return replace(policy, timing=timing, mode=settings.mode)
