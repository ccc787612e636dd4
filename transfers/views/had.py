"""What is already here: declared folders, landings and checksum lists, and how much of each resource they cover."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from calculet.actors import Actor
from calculet.http import ActDoneAlready, PersonRequest, page_or_part
from calculet.people.roles import Act, require
from inventory.manifests.lists import ListError
from inventory.models import HadKind, HadSource, HadState
from inventory.services import had
from inventory.services.errors import ValueWrong
from inventory.tasks import send_soon
from inventory.views.acts import REFUSALS, act_and_return, act_once, refusal_show, sentences_of
from transfers.forms import PageForm
from transfers.models import Landing
from transfers.selectors.here import covers_shown, sources_shown
from transfers.tasks import read_had

FILES_A_PAGE = 200
_UNDER_WAY = (HadState.QUEUED, HadState.RUNNING)


class HadForm(PageForm):
    """One of the three kinds; which, its fields tell."""

    kind = forms.ChoiceField(
        label=gettext_lazy("What it is"),
        choices=[
            (HadKind.FOLDER, gettext_lazy("a folder of this machine")),
            (HadKind.LANDING, gettext_lazy("what was opened in a landing")),
            (HadKind.LIST, gettext_lazy("a checksum list")),
        ],
        initial=HadKind.FOLDER,
    )
    name = forms.CharField(label=gettext_lazy("Name"), required=False, max_length=120)
    path = forms.CharField(label=gettext_lazy("Folder"), required=False, max_length=4096)
    landing = forms.ModelChoiceField(label=gettext_lazy("Landing"), required=False, queryset=Landing.objects.none())
    file = forms.FileField(
        label=gettext_lazy("Checksum list"),
        required=False,
        help_text=gettext_lazy("SHA256SUMS and every other format with SHA-256. One doubtful line stops it."),
    )

    def __init__(self, *args: Any, roots: list[str], **options: Any) -> None:
        super().__init__(*args, **options)
        landing = self.fields["landing"]
        assert isinstance(landing, forms.ModelChoiceField)
        landing.empty_label = _("choose one")
        landing.queryset = Landing.objects.order_by("name")
        self.fields["path"].help_text = (
            _("At or below: %(roots)s") % {"roots": ", ".join(roots)}
            if roots
            else _("This installation names no folder for that; CALCULET_HAD_DIRS does.")
        )


@require_http_methods(["GET", "HEAD", "POST"])
def here(request: PersonRequest) -> HttpResponse:
    """Every declaration, what it covers, and the form for one more."""
    require(request.user, Act.VIEW)
    is_sent = request.method == "POST"
    if is_sent:
        require(request.user, Act.RESOURCE_EDIT)
    roots = [str(root) for root in had.roots_allowed()]
    form = HadForm(request.POST if is_sent else None, request.FILES if is_sent else None, roots=roots)
    problems: list[str] = []
    if is_sent and form.is_valid():
        try:
            made = act_once(request, lambda actor: _declared(form.cleaned_data, actor))
        except ActDoneAlready as already:
            messages.warning(request, str(already))
            return redirect("transfers:here")
        except ListError as error:
            problems = sentences_of(error)
        except REFUSALS as error:
            refusal_show(form, error)
        else:
            if made.state != HadState.PREVIEWED:
                send_soon(read_had, made.pk)
                messages.success(request, _("“%(name)s” is being read; it covers nothing before.") % {"name": made})
            return redirect("transfers:here-source", made.pk)
    sources = sources_shown()
    context = {
        "form": form,
        "problems": problems,
        "sources": sources,
        "covers": covers_shown(),
        "is_busy": any(source.state in _UNDER_WAY for source in sources),
        "may_edit": request.user.may(Act.RESOURCE_EDIT),
    }
    return page_or_part(request, "transfers/here.html", "live", context, status=422 if is_sent else 200)


def _declared(given: dict[str, Any], actor: Actor) -> HadSource:
    name = given["name"]
    if given["kind"] == HadKind.LIST:
        if given["file"] is None:
            raise ValueWrong("file", _("Choose the list. Nothing was kept."))
        return had.had_list(content=given["file"].read(), file_name=given["file"].name, name=name, actor=actor)
    if given["kind"] == HadKind.LANDING:
        if given["landing"] is None:
            raise ValueWrong("landing", _("Choose the landing. Nothing was changed."))
        return had.had_landing(landing=given["landing"].name, name=name, actor=actor)
    return had.had_folder(path=given["path"], name=name, actor=actor)


@require_safe
def here_source(request: PersonRequest, pk: int) -> HttpResponse:
    """One declaration and the files that it says are here."""
    require(request.user, Act.VIEW)
    source = get_object_or_404(HadSource.objects.select_related("requested_by"), pk=pk)
    page = Paginator(source.files.order_by("pk"), FILES_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "source": source,
        "page": page,
        "is_busy": source.state in _UNDER_WAY,
        "may_edit": request.user.may(Act.RESOURCE_EDIT),
    }
    if request.htmx:
        return page_or_part(request, "transfers/here_source.html", "live", context)
    return render(request, "transfers/here_source.html", context)


@require_POST
def here_act(request: PersonRequest, pk: int, act: str) -> HttpResponse:
    """Declare a list that was looked at, read again, stop, or take back."""
    require(request.user, Act.RESOURCE_EDIT)
    source = get_object_or_404(HadSource, pk=pk)

    def again(actor: Actor) -> None:
        had.had_again(source=source, actor=actor)
        send_soon(read_had, source.pk)

    acts = {
        "declare": (
            lambda actor: had.had_declare(source=source, actor=actor),
            _("What the list names counts as already here from now on."),
        ),
        "again": (again, _("It is being read again; what did not change is not read a second time.")),
        "cancel": (
            lambda actor: had.had_cancel(source=source, actor=actor),
            _("The reading is stopped; what was read is remembered."),
        ),
        "withdraw": (
            lambda actor: had.had_withdraw(source=source, actor=actor),
            _("It covers nothing any more."),
        ),
    }
    if act not in acts:
        raise Http404
    do, done = acts[act]
    back = reverse("transfers:here") if act == "withdraw" else reverse("transfers:here-source", args=[source.pk])
    return act_and_return(request, do, back, done=done)
