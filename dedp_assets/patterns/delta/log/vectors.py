"""Deletion vectors of a log: the files that hold the vectors of data files."""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Mapping
from typing import Any

__all__ = ["VECTOR_FILE", "vector_file"]

VECTOR_FILE = re.compile(r"deletion_vector_[0-9a-f-]{36}\.bin")
"""Name of a file that holds deletion vectors."""

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_AS_B85 = str.maketrans(_Z85, _B85)
_UUID_LENGTH = 20


def vector_file(action: Mapping[str, Any]) -> str:
    """Return the path of the file with the deletion vector of an added or removed data file.

    Empty for a data file without a vector, or with the vector in the log itself.

    Args:
        action: ``add`` or ``remove`` of a commit.

    Raises:
        ValueError: for a vector whose file is not named as the Delta protocol says.
    """
    vector = action.get("deletionVector")
    if not vector or vector["storageType"] == "i":
        return ""
    place: str = vector["pathOrInlineDv"]
    if vector["storageType"] == "p":
        return place
    # A folder with a random name may stand before the UUID.
    folder, named = place[:-_UUID_LENGTH], place[-_UUID_LENGTH:]
    file = f"deletion_vector_{uuid.UUID(bytes=base64.b85decode(named.translate(_AS_B85)))}.bin"
    return f"{folder}/{file}" if folder else file
