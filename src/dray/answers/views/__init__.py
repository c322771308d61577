"""Views of a cluster: its devices, queues and topology as tables, drawings and documents."""
