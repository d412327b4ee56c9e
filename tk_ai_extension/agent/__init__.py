"""Claude in the notebook: sessions, transcripts, providers, and the tour for those who have none."""
