"""The tools by which persons read, begin and delete the conversations of agents."""
