from django.apps import AppConfig
from django.db.models.signals import post_migrate

from calculet.audit.guards import guards_prove


class AuditConfig(AppConfig):
    name = "calculet.audit"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # A table rebuild in a later migration drops triggers without a word.
        post_migrate.connect(guards_prove, sender=self, dispatch_uid="audit guards")
