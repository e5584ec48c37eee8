"""Protocol: what a table asks of its readers and writers, and who knows it."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from dedp_assets.patterns.delta.log import protocol
from dedp_assets.patterns.delta.log.protocol import unreadable, unwritable
from tests.helpers import field_of, write_protocol


@pytest.mark.parametrize(
    ("stated", "reads", "writes"),
    [
        ({"minReaderVersion": 1, "minWriterVersion": 2}, [], []),
        ({"minReaderVersion": 2, "minWriterVersion": 6, "readerFeatures": None, "writerFeatures": None}, [], []),
        (
            {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["b", "a", "deletionVectors"]},
            ["a", "b"],
            [],
        ),
        ({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["z", "rowTracking"]}, [], ["z"]),
        ({"minReaderVersion": 4, "minWriterVersion": 8}, ["version 4 of the protocol"], ["version 8 of the protocol"]),
    ],
)
def test_what_nobody_here_knows_is_listed_by_name(stated, reads, writes):
    """A newer version of the protocol is all there is to say of it."""
    assert (unreadable(stated), unwritable(stated)) == (reads, writes)


def opens(place) -> bool:
    try:
        DeltaTable(place)
    except Exception:
        return False
    return True


def test_deltalake_opens_what_counts_as_readable_and_nothing_that_was_added_since(tmp_path):
    """A feature that its next version learns is found here, and one that it forgets."""
    others = [
        "catalogManaged",
        "catalogOwned-preview",
        "geospatial",
        "redirectReaderWriter",
        "adaptiveMetadata-preview",
    ]
    for feature in (*protocol._READ, *others):
        write_protocol(tmp_path / feature, [field_of("n", "long")], readers=[feature], writers=[feature])
        assert opens(tmp_path / feature) == (feature in protocol._READ), feature


@pytest.mark.spark
def test_sparks_writer_knows_what_counts_as_writable(spark):
    """Of the features that it knows beside, tables cannot be read, or are committed to by somebody else."""
    known = {
        *str(spark._jvm.org.apache.spark.sql.delta.TableFeature.allSupportedFeaturesMap().keys().mkString(" ")).split()
    }
    ours = {feature.lower() for feature in protocol._WRITTEN}
    assert ours <= known
    assert known - ours == {
        "adaptivemetadata-preview",
        "catalogmanaged",
        "coordinatedcommits-preview",
        "geospatial",
        "geospatial-dev",
    }
