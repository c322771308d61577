"""Server-side apply: who owns which field, and what happens when two want the same one."""
