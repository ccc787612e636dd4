from django.apps import AppConfig

from calculet import celery, checks  # the broker must be known before any task is sent; checks register themselves

__all__ = ["CalculetConfig", "celery", "checks"]


class CalculetConfig(AppConfig):
    name = "calculet"
