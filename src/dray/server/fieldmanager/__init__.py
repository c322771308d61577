"""Field management (metadata.managedFields): who owns which field, server-side apply, and its conflicts."""
