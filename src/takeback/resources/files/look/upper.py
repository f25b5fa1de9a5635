"""Finding what changed in a view by its upper layer alone, so that a look costs what changed there.

What others change below the view meanwhile is not in the upper layer, and is not taken for the view's own.
"""

from __future__ import annotations

import os
from pathlib import Path

from takeback.resources.files.look.scan import Dirty
from takeback.resources.files.tree.tree import TreeFolder
from takeback.system import overlay
from takeback.system.beneath import RootFolder


def touched(upper: Path, place: RootFolder, known: TreeFolder) -> Dirty:
    """Return the names that were written or deleted in a view, whether or not they differ from what is known."""
    dirty: Dirty = {}
    with place.batch() as opened:
        for found in overlay.walk(os.fsencode(upper)):
            names = dirty.setdefault(found.path, set())
            names |= {b"", *found.there, *found.gone}
            folder = known.find(found.path)
            if folder is None:
                continue  # new: the look at its name enters it
            try:
                listed = {os.fsencode(name) for name in os.listdir(opened(found.path))}
            except OSError:
                continue
            # Made in the view and deleted again, so that the layer has no trace of it.
            names |= folder.names() - listed
    return dirty
