"""What every service needs to run: loops, logs, probes, metrics, the clock."""
