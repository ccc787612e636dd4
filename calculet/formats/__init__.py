"""Number formats by language, where they differ from Django's own."""
