"""The response as a JSON schema, as strict as the tools that take one want it."""

_TEXTS = {"type": "array", "items": {"type": "string"}}
_FIELDS: dict[str, object] = {
    "version": {"type": "integer", "enum": [1]},
    "status": {"type": "string", "enum": ["ok", "fail"]},
    "summary": {"type": "string"},
    "files": _TEXTS,
    "next_actions": _TEXTS,
    "errors": _TEXTS,
}

RESPONSE: dict[str, object] = {
    "type": "object",
    "properties": _FIELDS,
    "required": list(_FIELDS),
    "additionalProperties": False,
}
