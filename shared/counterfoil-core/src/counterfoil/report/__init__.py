"""Evidence for people who do not sit at a command line: diagrams as text, and one page that tells a whole case."""
