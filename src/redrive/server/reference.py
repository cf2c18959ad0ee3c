"""The OpenAPI document as a page for people: plain HTML, no script, nothing from another host."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any


def reference(document: dict[str, Any]) -> str:
    tags: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append(_operation(path, method, operation, document))
    links = " ".join(f'<a href="#{_slug(tag)}">{_spoken(tag)}</a>' for tag in tags)
    sections = "".join(
        f'<h2 id="{_slug(tag)}">{_spoken(tag)}</h2>{"".join(found)}' for tag, found in tags.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Redrive: the HTTP API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/api/docs.css"></head><body><main><h1>The HTTP API</h1>'
        f"<p>{_marked(document['info']['description'])}</p>"
        '<p>For programs: <a href="/api/openapi.json">openapi.json</a></p>'
        f"<nav>{links}</nav>{sections}</main></body></html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any], document: dict[str, Any]) -> str:
    parts = "".join(_parts(operation, document))
    needs = operation.get("x-permission") or ("no sign-in" if not operation["security"] else "a sign-in")
    home = ", from the organization <code>default</code>" if operation.get("x-organization") else ""
    summary = escape(operation.get("description") or operation["summary"])
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
        f'<span class="soft">{summary}</span></summary><p>Needs <code>{escape(needs)}</code>{home}.</p>'
        f"{parts}</details>"
    )


def _parts(operation: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    if rows := "".join(_parameter(each) for each in operation.get("parameters", [])):
        yield f"<table><tr><th>parameter</th><th>in</th><th>what it is</th></tr>{rows}</table>"
    if body := _content(operation.get("requestBody", {})):
        yield f"<p>Body</p>{_example(body, document)}"
    for status, response in operation["responses"].items():
        if status != "default" and (schema := _content(response)):
            yield f"<p>{escape(status)}</p>{_example(schema, document)}"


def _parameter(each: dict[str, Any]) -> str:
    said = each.get("description") or _kind(each.get("schema", {}), {}, 0)
    need = " (required)" if each.get("required") else ""
    name = escape(each["name"])
    return f"<tr><td><code>{name}</code>{need}</td><td>{each['in']}</td><td>{escape(str(said))}</td></tr>"


def _content(holder: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = holder.get("content", {}).get("application/json", {}).get("schema", {})
    return found


def _example(schema: dict[str, Any], document: dict[str, Any]) -> str:
    return f"<pre>{escape(_kind(schema, document.get('components', {}).get('schemas', {}), 0))}</pre>"


def _kind(schema: dict[str, Any], known: dict[str, Any], depth: int) -> str:
    """A schema as somebody would write it down."""
    if "$ref" in schema:
        schema = known.get(schema["$ref"].rsplit("/", 1)[-1], {})
    if "anyOf" in schema:
        return " | ".join(_kind(each, known, depth) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " | ".join(repr(each) for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"[{_kind(schema.get('items', {}), known, depth)}]"
    if "properties" in schema and depth < 4:
        inner = "".join(
            f"{'  ' * (depth + 1)}{name}: {_kind(each, known, depth + 1)}\n"
            for name, each in schema["properties"].items()
        )
        return "{\n" + inner + "  " * depth + "}"
    return str(schema.get("type", "any JSON"))


def _marked(text: str) -> str:
    pieces = text.split("`")
    return "".join(f"<code>{escape(p)}</code>" if i % 2 else escape(p) for i, p in enumerate(pieces))


def _slug(tag: str) -> str:
    return tag.replace(" ", "-").replace("_", "-")


def _spoken(tag: str) -> str:
    return escape(tag.replace("_", " "))
