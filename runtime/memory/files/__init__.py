"""What stores of files share: a base class, and folders and files of agents with their paths and locks."""
