"""Keys in the memory of a process that encrypts: those in use are there, and no others."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from hashlib import sha256

from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.secret import Secret
from dedp_assets.patterns.security.encryptor import KeyRing
from tests.canaries import memory_of

WRAPPING = sha256(b"a wrapping key that no text has by chance").digest()
PURPOSE = "silver/users"
ENCRYPTS = """
import gc, sys
from pathlib import Path
import pyarrow as pa
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.secret import Secret
from dedp_assets.patterns.security._sealing import Sealing
from dedp_assets.patterns.security.encryptor import KeyRing

file, digits = sys.stdin.readline().split()
ring = KeyRing.opened(Path(file), Access("test", {}, "test", version="1", secret=Secret(digits)))
work = Sealing("silver/users.mail", b"", "silver/users", False, False, {}, ring.current("silver/users"))
made = work.encrypt(pa.array([b"ada@example.org"] * 100), None)
print("in use", flush=True)
sys.stdin.readline()
del ring, work, digits
gc.collect()
print("dropped", flush=True)
sys.stdin.readline()
"""


def wrapping():
    return Access("test", {}, "test", version="1", secret=Secret(WRAPPING.hex()))


@contextmanager
def encrypting(file):
    """A process that encrypts by the key of a purpose, and what lets it drop the key."""
    with subprocess.Popen(
        [sys.executable, "-c", ENCRYPTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:

        def go_on(word, said=""):
            process.stdin.write(f"{said}\n")
            assert process.stdout.readline() == f"{word}\n"

        go_on("in use", f"{file} {WRAPPING.hex()}")
        yield process, go_on
        process.stdin.write("\n")


def held_by(process, needles):
    """How often each of some values is in the memory of a process."""
    found = dict.fromkeys(needles, 0)
    for _, content in memory_of(process.pid):
        found |= {name: found[name] + content.count(value) for name, value in needles.items()}
    return found


def test_the_keys_in_use_are_in_memory_and_no_others_and_a_dropped_one_is_in_fewer_places(tmp_path):
    """What docs/secrets.md says: of a ring the asked key alone is unwrapped; the process dropped its own copies."""
    ring = KeyRing.opened(tmp_path / "columns.ring", wrapping())
    needles = {name: ring.current(name).value for name in (PURPOSE, "silver/others")} | {"wrapping": WRAPPING}
    with encrypting(ring.file) as (process, go_on):
        used = held_by(process, needles)
        go_on("dropped")
        dropped = held_by(process, needles)
    assert used["silver/others"] == dropped["silver/others"] == 0
    assert used[PURPOSE] > 0
    assert used["wrapping"] > 0
    assert dropped[PURPOSE] < used[PURPOSE]
