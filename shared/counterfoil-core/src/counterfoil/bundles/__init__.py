"""One file cut out of evidence, verifiable alone and offline (``shared/spec/bundle.md``)."""
