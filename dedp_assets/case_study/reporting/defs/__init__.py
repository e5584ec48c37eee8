"""Tables of the reports, one module each."""

from dedp_assets.graph.declare import About

ABOUT = About(owner="team:reporting")
