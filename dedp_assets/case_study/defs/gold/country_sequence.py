"""The steps from a paid answer to an exported report, as one sequence of tables."""

from dedp_assets.graph.declare import InSequence
from dedp_assets.patterns.flow.local_sequencer import SequenceStep

COUNTRY_REPORT_STEPS = InSequence(
    "country_report",
    (
        # Every address costs: nothing that comes after it repeats it.
        SequenceStep("bronze/ip_locations"),
        SequenceStep("gold/visits_by_country", after=("bronze/ip_locations",)),
        # A preview that the report does not read: without it the report is exported, and the run fails as degraded.
        SequenceStep("gold/visits_by_region", after=("bronze/ip_locations",), on_failure="continue"),
        # Rows and the name that shows them are one step, because they change together.
        SequenceStep("gold/country_report", after=("gold/visits_by_country",)),
    ),
)
