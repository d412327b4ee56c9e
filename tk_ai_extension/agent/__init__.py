"""Claude in the notebook: sessions, transcripts, providers, and the tour for servers without a model."""
