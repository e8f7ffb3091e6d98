"""What the API server answered, as one line of a test."""

from tests.lab.controlplane import Answer


def assert_allowed(answer: Answer) -> None:
    assert answer.ok, answer.text


def assert_denied_by(policy: str, answer: Answer) -> None:
    """Denied by this policy of ours, and by nothing else."""
    assert answer.status in (403, 422), answer.text
    assert f"ValidatingAdmissionPolicy '{policy}'" in answer.body["message"], answer.text
