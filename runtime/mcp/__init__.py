"""The tool table over the Model Context Protocol, by stdio and by HTTP. Nothing here is imported before it is used: the
SDK takes longer to load than most commands run."""
