"""Verdicts of Apicurio Registry on the changes of the compatibility tests, recorded beside them.

Made again by a registry in memory, which takes a minute (the archive is an artifact of Maven Central):

    mvn dependency:get -Dtransitive=false -Dartifact=io.apicurio:apicurio-registry-app:3.3.3:tar.gz:all
    tar xzf apicurio-registry-app-3.3.3-all.tar.gz
    java -Dquarkus.http.host=127.0.0.1 -Dquarkus.http.port=18099 -jar quarkus-run.jar
    python -m tests.apicurio.recording http://127.0.0.1:18099
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

RECORD = Path(__file__).with_name("verdicts.json")
"""Version of Apicurio, and by type of schema: change -> digest of both schemas, and mode -> verdict or refusal."""
MODES = ("BACKWARD", "FORWARD")
_API = "apis/ccompat/v7"


def asked(url: str, method: str, path: str, body: object = None) -> Any:
    """The answer of a registry."""
    data = None if body is None else json.dumps(body).encode()
    media = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = Request(f"{url}/{path}", data, media, method=method)  # noqa: S310 - of the command
    with urlopen(request, timeout=60) as answer:  # noqa: S310 - as above
        return json.load(answer)


def digest(old: object, new: object) -> str:
    """The identity of a change, so that a verdict on another one is noticed."""
    return hashlib.sha256(json.dumps([old, new], sort_keys=True).encode()).hexdigest()[:12]


def verdicts(url: str, subject: str, kind: str, old: object, new: object) -> Iterator[tuple[str, bool | str]]:
    """Each mode with the verdict on a schema that follows another."""
    old_, new_ = ({"schema": json.dumps(_named(each, kind)), "schemaType": kind} for each in (old, new))
    for mode in MODES:
        name = f"{subject}-{mode}"
        try:
            asked(url, "POST", f"{_API}/subjects/{name}/versions", old_)
            asked(url, "PUT", f"{_API}/config/{name}", {"compatibility": mode})
            found = asked(url, "POST", f"{_API}/compatibility/subjects/{name}/versions/latest", new_)
            yield mode, found["is_compatible"]
        except HTTPError as error:
            yield mode, f"refused: {json.load(error)['message'][:100]}"


def recorded(url: str, changes: Mapping[str, Mapping[str, tuple[Any, ...]]]) -> dict[str, Any]:
    """All verdicts of a registry.

    Args:
        url: its address.
        changes: type of schema -> change -> old and new schema.
    """
    found: dict[str, Any] = {"apicurio": asked(url, "GET", "apis/registry/v3/system/info")["version"]}
    for kind, each in changes.items():
        found[kind] = {
            name: {"of": digest(old, new), **dict(verdicts(url, f"{kind}-{number}", kind, old, new))}
            for number, (name, (old, new, *_)) in enumerate(each.items())
        }
    return found


def _named(schema: object, kind: str) -> object:
    """A schema by which Apicurio sees that JSON is a JSON Schema."""
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"} if kind == "JSON" else {}
    return {**draft, **schema} if isinstance(schema, dict) else schema


if __name__ == "__main__":
    from tests.patterns.quality.compatibility.test_avro_compatibility import CHANGES as AVRO
    from tests.patterns.quality.compatibility.test_json_compatibility import CHANGES as JSON

    made = recorded(sys.argv[1].rstrip("/"), {"AVRO": AVRO, "JSON": JSON})
    RECORD.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
