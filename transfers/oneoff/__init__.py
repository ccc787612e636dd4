"""Fetching one remote file without web, broker, database or plan: `manage.py fetch`. Plain Python."""
