"""Drawing: SVG for topologies, replays and usage.

`svg` has documents, texts, boxes and lines; `charts` makes line charts of them, and `bars` bar charts. `colors` are
those of the web page. Everything is plain SVG 1.1 without scripts or fonts.

May import: nothing else of dray.
"""
