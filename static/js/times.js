// Shows each <time datetime> in this browser's zone; without JavaScript the server's text stays, which names its zone.
"use strict";
(() => {
  const language = document.documentElement.lang || undefined;
  const day = new Intl.DateTimeFormat(language, { weekday: "short", day: "numeric", month: "short" });
  const dayOfYear = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", year: "numeric" });
  const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const exact = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "long" });

  const shown = (at) => {
    const now = new Date();
    if (at.toDateString() === now.toDateString()) return clock.format(at);
    const date = at.getFullYear() === now.getFullYear() ? day.format(at) : dayOfYear.format(at);
    return `${date} ${clock.format(at)}`;
  };
  const localise = (root) => {
    for (const element of root.querySelectorAll("time[datetime]:not([data-local])")) {
      const at = new Date(element.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      element.title = exact.format(at);
      element.textContent = shown(at);
      element.dataset.local = "";
    }
  };
  localise(document);
  document.addEventListener("htmx:load", (event) => localise(event.detail.elt.parentElement || document));
})();
