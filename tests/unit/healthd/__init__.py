"""healthd judged in memory."""
