"""Operations on agents with a model: conversations, runs and threads."""
