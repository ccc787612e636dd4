from django.apps import AppConfig
from django.db.models.signals import post_migrate

from calculet.people import groups


class PeopleConfig(AppConfig):
    name = "calculet.people"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        post_migrate.connect(groups.groups_ensure, sender=self, dispatch_uid="role groups")
