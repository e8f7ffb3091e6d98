"""Every string that another program sees: keys, subjects, claims read from pods, results written to them."""
