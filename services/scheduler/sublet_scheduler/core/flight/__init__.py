"""The flight recorder: what the engine was told since a moment whose state is known, and the way back."""
