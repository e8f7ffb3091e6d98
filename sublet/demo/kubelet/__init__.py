"""A stand-in for the kubelet: its device manager, sockets and files, without a container runtime.

Agents cannot tell it from the real one: Registration, ListAndWatch, Allocate, PreStartContainer, the device
checkpoint, PodResources, cgroups. In place of containers it works out what each would see: environment and
device nodes, CDI specs read from their files.
"""

import os

# whoever runs a stand-in also starts child processes; gRPC's fork handlers abort those between fork and exec
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
