"""Shim: a small process beside each container that outlives the agent.

It starts the container's process, writes its log, hands its streams to whoever attaches, and keeps how it ended. It
uses the standard library alone and imports little. All shims of an agent are forked from one process (`server`).
"""
