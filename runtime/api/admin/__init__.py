"""Operations of the admin socket, one file for each resource. Commands that own the root call the same functions."""
