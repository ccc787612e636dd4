"""Model fields of the inventory: names as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from inventory.remote.names import RemoteName

if TYPE_CHECKING:
    _Bytes = models.BinaryField[RemoteName | bytes, RemoteName]
else:
    _Bytes = models.BinaryField  # not generic while it runs


class Holds(models.Lookup):
    """`name__holds=b"…"`: these bytes stand somewhere in the name."""

    lookup_name = "holds"

    def get_prep_lookup(self) -> bytes:
        return bytes(self.rhs)

    def get_db_prep_lookup(self, value: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        return "%s", (connection.Database.Binary(value),)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        place, given = self.process_lhs(compiler, connection)
        value, wanted = self.process_rhs(compiler, connection)
        return f"instr({place}, {value}) > 0", (*given, *wanted)

    def as_postgresql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        place, given = self.process_lhs(compiler, connection)
        value, wanted = self.process_rhs(compiler, connection)
        return f"position({value}::bytea in {place}) > 0", (*wanted, *given)


class RemoteNameField(_Bytes):
    """A remote path or name, stored as its exact bytes, loaded as `RemoteName`."""

    def from_db_value(self, value: bytes | memoryview | None, expression: object, connection: object) -> Any:
        return None if value is None else RemoteName(bytes(value))

    def to_python(self, value: Any) -> Any:
        if value is None or isinstance(value, RemoteName):
            return value
        if isinstance(value, str):
            return RemoteName.from_text(value)
        return RemoteName(bytes(value))

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:  # noqa: FBT001, FBT002
        raw = value.raw if isinstance(value, RemoteName) else value
        return super().get_db_prep_value(raw, connection, prepared)


RemoteNameField.register_lookup(Holds)
