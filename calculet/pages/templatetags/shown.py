"""Filters and tags for what every page shows."""

from django import template

register = template.Library()
