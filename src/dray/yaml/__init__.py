"""YAML as Kubernetes reads and writes it: one reader and one writer for the server and the command line."""
