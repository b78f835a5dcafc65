"""The one path of calls to language models and embeddings: limited, repeated and counted."""
