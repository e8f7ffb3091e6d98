"""The agent's hands: kubelet sockets, files, the bus. It decides nothing."""
