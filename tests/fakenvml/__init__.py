"""A stand-in for NVIDIA's library, in C, so that the unchanged Python binding runs on it."""
