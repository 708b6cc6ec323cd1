"""The scaffolds of a mission's files; whatever stands in brackets is to be replaced."""

SPEC = """\
# {title}

<!-- Replace what stands in brackets; delete what does not apply. -->

## Goal

[One or two sentences: who needs what, and why]

## Functional Requirements

| ID | Requirement |
|---|---|
| FR-001 | [What must be true when this is done] |

## Acceptance Criteria

<!-- A criterion that ends in a command in back-ticks, beginning with a dollar sign, is checked
     by treadle itself. -->

- [How anyone can tell that FR-001 holds]

## Out of Scope

- [What this mission leaves alone]

## Commit Boundary

- `treadle mission create` does not commit this file, and planning does not begin while the last
  commit holds only the scaffold.
- Substantive means: at least one FR row under Functional Requirements with a description of its
  own; placeholders in brackets, TODO and TBD do not count.
- To go on: write the requirements, commit this file yourself, then run
  `treadle mission setup-plan`.
"""

PLAN = """\
# Plan: {title}

<!-- Replace what stands in brackets; delete what does not apply. -->

## Technical Context

- **Language/Version**: [e.g., Python 3.11 or NEEDS CLARIFICATION]
- **Primary Dependencies**: [e.g., sqlite3 from the standard library or NEEDS CLARIFICATION]
- **Storage**: [e.g., files, SQLite or N/A]
- **Testing**: [e.g., pytest or NEEDS CLARIFICATION]
- **Target Platform**: [e.g., Linux and macOS]
- **Constraints**: [e.g., no new dependencies]

## Approach

[How the requirements will be met, and what was considered and refused]

## Tasks

<!-- One item per task; `depends on` and `files` may be left out. Items below a task are its
     acceptance criteria. `treadle mission tasks` writes tasks/WP01-….md and so on from this list:

     - WP02: Reject expired tokens (depends on: WP01; files: src/auth.py, tests/)
       - The tests pass: `$ pytest -q`
-->

- [WP01: Title of the first task]

## Commit Boundary

- `treadle mission setup-plan` commits this file, and only once it is substantive; it refuses to
  begin while spec.md is not committed and substantive.
- Substantive means: under Technical Context, Language/Version and at least one more field have
  real values; placeholders in brackets do not count.
- To go on: write real values, then run `treadle mission setup-plan` again; it commits the plan.
"""

TASK = """\
---
work_package_id: {id}
title: {title}
dependencies: [{dependencies}]
owned_files: [{files}]
---
# {heading}

## Acceptance Criteria

{criteria}
"""


COMMIT_BOUNDARY = {
    name: text[text.index("## Commit Boundary") :]
    for name, text in (("spec", SPEC), ("plan", PLAN))
}
