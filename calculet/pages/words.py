"""Words that pages translate when they show them.

Labels of states, kinds and levels are plain words where they are declared, and templates give them to gettext as
values. Message catalogs are made from words that stand in the text of the program, so they stand here.
"""

from __future__ import annotations

from django.utils.translation import gettext_noop as _

WORDS: frozenset[str] = frozenset(
    {
        # Roles.
        _("viewer"),
        _("planner"),
        _("operator"),
        _("approver"),
        _("auditor"),
        _("admin"),
        # States of builds, revisions, proposals, scans, unpacks and imported lists.
        _("approved"),
        _("cancelled"),
        _("cleared"),
        _("declined"),
        _("discarded"),
        _("draft"),
        _("failed"),
        _("fetching"),
        _("finished"),
        _("imported"),
        _("needs a decision"),
        _("opened"),
        _("packed"),
        _("packing"),
        _("permitted"),
        _("planned"),
        _("previewed"),
        _("proposed"),
        _("queued"),
        _("received"),
        _("replaced"),
        _("running"),
        _("superseded"),
        _("verified"),
        _("withdrawn"),
        _("needs_decision"),  # as the sentence about a change that came too late names it
        # What has a name that may be taken.
        _("host"),
        _("resource of this host"),
        # Kinds of resources, entries, channels and links.
        _("archive"),
        _("container image"),
        _("container store"),
        _("device"),
        _("direct SSH"),
        _("file"),
        _("first admin"),
        _("folder"),
        _("link"),
        _("model parameters"),
        _("other"),
        _("pipe"),
        _("repository"),
        _("set a password"),
        _("set of parts"),
        _("socket"),
        _("unreadable folder"),
        # What becomes of an entry.
        _("unexplained"),
        # How far a size can be trusted.
        _("about"),
        _("declared"),
        _("exact"),
        _("unknown"),
        # Modes, compressions and decisions.
        _("approve"),
        _("decline"),
        _("existing archive"),
        _("files"),
        _("none"),
        _("undecided"),
        _("zstd"),
        # Levels and outcomes of checks, and how a source deviates.
        _("block"),
        _("build"),
        _("changed"),
        _("chunk"),
        _("content"),
        _("touched"),
        _("could not read"),
        _("differed"),
        _("extra"),
        _("matched"),
        _("member"),
        _("missing"),
        _("not expected"),
        _("not packed"),
        _("re-check"),
        _("recorded here"),
        _("sample"),
        _("unreadable"),
        _("vanished"),
        # What differs between two listings.
        _("kind"),
        _("size"),
        _("time"),
        # What templates write as a state's word.
        _("Every step can be done the best way."),
        _("added"),
        _("no"),
        _("differs"),
        _("no key pinned"),
        _("not approved"),
        _("not listed"),
        _("not probed yet"),
        _("not there"),
        _("on hold"),
        _("paused"),
        _("pinned"),
        _("probing"),
        _("removed"),
        _("same"),
        _("stopped"),
        _("well"),
        _("yes"),
        # What a digest is of, as its button for copying says.
        _("SHA-256 of report.json"),
        _("digest of the list"),
        _("digest of the member list"),
        _("digest of the revision"),
        _("expected SHA-256"),
        _("found SHA-256"),
    }
)
