"""Every string that another program sees: keys, subjects, reading a claim from a pod, writing a placement to a pod."""
