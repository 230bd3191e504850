"""Holds every example of an OpenAPI document against its schema; prints how many there were."""
import json
import sys

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

with open(sys.argv[1]) as file:
    document = json.load(file)
registry = Registry().with_resource("urn:grid", Resource.from_contents(document, default_specification=DRAFT202012))


def absolute(node):
    """References of the document, also seen from a part of it."""
    if isinstance(node, dict):
        return {k: "urn:grid" + v if k == "$ref" and v.startswith("#") else absolute(v) for k, v in node.items()}
    return [absolute(item) for item in node] if isinstance(node, list) else node


def media(node, at):
    """Every media type of the document, with where it stands."""
    if isinstance(node, dict):
        if "schema" in node and ("example" in node or "examples" in node):
            yield at, node
        for key, value in node.items():
            yield from media(value, f"{at}/{key}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from media(value, f"{at}/{i}")


count, bad = 0, 0
for at, node in media(document["paths"], ""):
    validator = Draft202012Validator(absolute(node["schema"]), registry=registry)
    examples = {name: e["value"] for name, e in node.get("examples", {}).items()}
    if "example" in node:
        examples[""] = node["example"]
    for name, example in examples.items():
        count += 1
        for error in validator.iter_errors(example):
            bad += 1
            print(f"{at} {name}: {error.message[:300]}")
print(f"{count} examples, {bad} faults")
sys.exit(1 if bad or not count else 0)
