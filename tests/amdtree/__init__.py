"""Trees like those that AMD's driver shows in sysfs, for tests without hardware."""
