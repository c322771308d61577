"""The MCP server: `server` has the tools, `questions` answers in a process of its own, `writes` changes objects."""
