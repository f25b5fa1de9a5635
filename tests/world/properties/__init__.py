"""The properties of the torture tree, by family; importing this registers them all."""

from . import contents, kinds, links, modes, names, projects

__all__ = ["contents", "kinds", "links", "modes", "names", "projects"]
