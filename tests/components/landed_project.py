"""A project of YAML files with a landing zone and a lake, driven as the reconciler drives it."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
from deltalake import DeltaTable

from dedp_assets.components.checking import checked, files_below
from dedp_assets.components.defining import definitions_of
from dedp_assets.graph.reconcile.overview import Overview
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.resources.spark import SparkEngine

IDLE = ("waiting", "unusable")


class Project:
    """Files with declarations, what lands, and the runs that follow."""

    def __init__(self, root: Path, files: Mapping[str, str], *, lake: str = "lake") -> None:
        self.root = root
        self.write(files)
        self.lake = Lake(root=str(root / lake), engine=SparkEngine())
        self.zone = Landing(root=str(root / "landing"))

    def write(self, files: Mapping[str, str]) -> None:
        """Write files below the folder of definitions."""
        for name, text in files.items():
            file = self.root / "defs" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    @property
    def tables(self) -> dict[str, Any]:
        """The declared tables by name."""
        found = checked(files_below(self.root / "defs"))
        assert [str(fault) for fault in found.faults] == []
        return {table.spec.name: table for table in found.tables}

    def land(self, folder: str, files: Mapping[str, str | bytes], *, marker: str = "_SUCCESS") -> None:
        """Put files into a folder of the landing zone, and the marker last."""
        there = self.root / "landing" / folder
        there.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (there / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        if marker:
            (there / marker).touch()

    def wants(self) -> list[Any]:
        """What a new look of the reconciler asks for."""
        return [w for w in self._overview().poll(self.lake, self.zone, Clock().now()) if w.state not in IDLE]

    def held(self) -> dict[str, str]:
        """What a look of the reconciler waits for, with the reason."""
        found = self._overview().poll(self.lake, self.zone, Clock().now())
        return {w.key: w.reason for w in found if w.state in IDLE}

    def _overview(self) -> Overview:
        return Overview(list(self.tables.values()))

    def react(self) -> list[tuple[str, str]]:
        """Run what the reconciler asks for until it asks for nothing; tables and keys, in order."""
        done: list[tuple[str, str]] = []
        while wants := self.wants():
            for want in wants:
                for name in want.tables:
                    self.run(name, want.key)
                    done.append((name, want.key))
            assert len(done) < 50, done
        return done

    def run(self, name: str, key: str = "", *, refuses: bool = False) -> dict[str, bool]:
        """Compute a partition of a table; the verdicts of its checks."""
        return self._materialize(self.tables[name].definition(), key, refuses=refuses)

    def replay(self, name: str, key: str = "") -> None:
        """Replay the dead letters of a partition."""
        assets = definitions_of([self.tables[name]]).assets or ()
        (asset,) = [each for each in assets if "replay" in str(each.key if len(list(each.keys)) == 1 else "")]
        self._materialize(asset, key)

    def _materialize(self, asset: Any, key: str, *, refuses: bool = False) -> dict[str, bool]:
        resources = {"lake": self.lake, "clock": Clock(), "landing": self.zone}
        with dg.DagsterInstance.ephemeral() as instance:
            done = dg.materialize(
                [asset], partition_key=key or None, resources=resources, instance=instance, raise_on_error=not refuses
            )
            assert done.success is not refuses
            return {each.check_name: each.passed for each in done.get_asset_check_evaluations()}

    def rows(self, name: str, *columns: str) -> list[Any]:
        """Rows of a table by an independent reader, or some columns of them as tuples, sorted."""
        found = DeltaTable(f"{self.lake.root}/{name}").to_pyarrow_table().to_pylist()
        return sorted((tuple(row[c] for c in columns) for row in found), key=repr) if columns else found


def csv_of(header: Iterable[str], rows: Iterable[Mapping[str, str]], *, end: str = "\n") -> str:
    """Write CSV by hand: values with a comma, a quote or a line feed in quotes."""
    names = list(header)

    def written(value: str) -> str:
        return '"' + value.replace('"', '""') + '"' if set(value) & set(',"\n') else value

    lines = [",".join(names), *(",".join(written(row[name]) for name in names) for row in rows)]
    return end.join(lines) + end
