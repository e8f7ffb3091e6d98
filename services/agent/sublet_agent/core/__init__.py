"""What the agent decides: which slots to show, who starts with which cards, what is seen on the node."""
