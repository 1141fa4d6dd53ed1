"""Studies: the papers' claims asked of many datasets, and the pages that answer."""
