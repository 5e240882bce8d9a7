"""Reports for people: terminal tables, plots and the HTML report."""
