"""Drawing: SVG for topologies, replays and usage.

`svg` has the pieces (documents, texts, boxes, lines), `charts` line charts and `bars` bars made of them. Everything is
plain SVG 1.1 without scripts and without fonts of its own.

May import: nothing else of dray.
"""
