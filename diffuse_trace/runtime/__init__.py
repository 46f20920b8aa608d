"""The runtime: ranks, communication, local data and replays."""
