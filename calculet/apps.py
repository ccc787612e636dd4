from django.apps import AppConfig

from calculet import celery  # the broker must be known before any task is sent

__all__ = ["CalculetConfig", "celery"]


class CalculetConfig(AppConfig):
    name = "calculet"
