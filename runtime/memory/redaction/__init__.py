"""What counts as a secret: rows of `Pattern`, forms that name a service first (`forms`), settings last (`settings`)."""
