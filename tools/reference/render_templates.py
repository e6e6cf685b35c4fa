#!/usr/bin/env python3
"""Renders the chat templates of tests/golden/chat_templates with Jinja, in the environment that transformers sets up, and writes what
tests/runtime/chat_template_test.cpp expects.

    python3 tools/reference/render_templates.py            writes expected.json
    python3 tools/reference/render_templates.py --check    compares with it

Needs jinja2 (3.1). expected.json is a list of {"template", "conversation", "text"}, or "error" where the template raises one.
"""
import json
import pathlib
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/chat_templates"


class Generation(Extension):
    """{% generation %} … {% endgeneration %}: its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def environment():
    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda format: "26 Jul 2024"
    return made


def main():
    conversations = json.loads((FOLDER / "conversations.json").read_text())
    rendered = []
    for path in sorted(FOLDER.glob("*.jinja")):
        template = environment().from_string(path.read_text())
        for name, variables in conversations.items():
            entry = {"template": path.name, "conversation": name}
            try:
                entry["text"] = template.render(**variables)
            except Exception as error:  # what the sandbox, Jinja or the template raises
                entry["error"] = str(error)
            rendered.append(entry)
    text = json.dumps(rendered, ensure_ascii=False, indent=1) + "\n"
    target = FOLDER / "expected.json"
    if "--check" in sys.argv:
        sys.exit(0 if target.read_text() == text else f"{target} differs")
    target.write_text(text)


if __name__ == "__main__":
    main()
