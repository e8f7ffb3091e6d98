"""A cluster that goes wrong at random, around one or two engines of the scheduler."""
