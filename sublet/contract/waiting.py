"""The annotation ``sublet.dev/waiting``: a sentence with the counted reasons, then the nearest miss."""

_NEAREST = "; nearest: "


def with_nearest(sentence: str, nearest: str) -> str:
    """The annotation's value; `nearest` says what came nearest to taking the pod and what it lacks."""
    return f"{sentence}{_NEAREST}{nearest}" if nearest and not nearest_in(sentence) else sentence


def nearest_in(waiting: str) -> str:
    """The nearest miss that the annotation tells, empty where it tells none."""
    return waiting.partition(_NEAREST)[2]


def without_nearest(waiting: str) -> str:
    """The sentence alone."""
    return waiting.partition(_NEAREST)[0]
