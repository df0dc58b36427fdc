"""Writes all files of the repository that derive from code: `python -m infra.derived [--check]`, `make derived`."""

import sys

from infra import doc_figures, doc_tables, local_template, sdk_reference, settings_page


def main(arguments: list[str] | None = None) -> int:
    """Writes the files, or compares them with the code. Returns the exit code."""
    mains = (
        local_template.main,
        settings_page.main,
        sdk_reference.main,
        doc_tables.main,
        doc_figures.main,
    )
    return max(each(arguments) for each in mains)


if __name__ == "__main__":
    sys.exit(main())
