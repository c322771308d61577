"""The functions of the language, one module per library of CEL or Kubernetes."""
