"""Errors of an object store as errors of a file system, without signatures and headers."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.secret import masked

__all__ = ["as_file", "object_named", "refusal"]

failures = optional("obstore.exceptions")

_CODE = re.compile(r"<Code>([^<]*)</Code>")
_STATUS = re.compile(r"status code: (\d{3}[^:\n]*)")
_FORBIDDEN = ("401", "403")
_DENIED_OF_MANY = "(code: AccessDenied)"
"""Words of obstore for a removal of several objects, whose answer has the status of a success."""


@contextmanager
def as_file(bucket: str, key: str) -> Iterator[None]:
    """Raise the errors of obstore as errors of a file system, without the request in the cause."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "there is no such object", object_named(bucket, key)) from None
    except (failures.AlreadyExistsError, failures.PreconditionError):
        raise FileExistsError(errno.EEXIST, "the object is there, or another one", object_named(bucket, key)) from None
    except failures.BaseError as error:
        text = str(error)
    else:
        return
    raise refusal(bucket, key, text) from None


def refusal(bucket: str, key: str, text: str) -> OSError:
    """Build the error of a refused or lost request, without signature and headers."""
    code, status = _CODE.search(text), _STATUS.search(text)
    why = code[1] if code else status[1] if status else text.partition("\n")[0]
    place, why = object_named(bucket, key), masked(why.strip())
    if (status and status[1].startswith(_FORBIDDEN)) or _DENIED_OF_MANY in text:
        return PermissionError(
            errno.EACCES,
            f"the server refuses it ({why}): look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and their right to the "
            f"bucket {bucket}",
            place,
        )
    return ConnectionError(
        f"{place} was not served ({why}): look at the server, its bucket {bucket}, AWS_ENDPOINT_URL and "
        "AWS_ALLOW_HTTP, and run again"
    )


def object_named(bucket: str, key: str) -> str:
    """Return the address of an object, for messages."""
    return f"s3://{bucket}/{key}"
