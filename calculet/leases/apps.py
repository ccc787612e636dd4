from django.apps import AppConfig


class LeasesConfig(AppConfig):
    name = "calculet.leases"
    default_auto_field = "django.db.models.BigAutoField"
