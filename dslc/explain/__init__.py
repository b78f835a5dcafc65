"""A page about every code: what it is, why it matters, a wrong example and a right one. The texts are in `pages/`."""
