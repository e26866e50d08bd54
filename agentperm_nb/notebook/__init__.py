"""Where the person is: the panel under the cell, and how a click reaches a cell that is still running."""
