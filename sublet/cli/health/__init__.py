"""`sublet health`: how cards are, what was judged and why, and what people say of it."""
