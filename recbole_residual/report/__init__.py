"""Tables, figures and the page of one run, or of several."""
