// An element with data-refresh="SECONDS" asks for itself anew while the page is looked at. It waits while somebody
// types, drags or presses there, and opened details stay open. Without JavaScript the page is loaded by hand.
"use strict";
(() => {
  const asked = new WeakMap();
  let pressed = false;
  addEventListener("pointerdown", () => { pressed = true; });
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { pressed = false; });

  const isTouched = (field) => field.type !== "hidden" && field.value !== field.defaultValue;
  const isBusy = (element) =>
    pressed || element.querySelector(".dragged") || [...element.querySelectorAll("input, textarea")].some(isTouched) ||
    (element.contains(document.activeElement) && document.activeElement.matches("input, textarea, select"));

  const look = () => {
    if (document.hidden) return;
    for (const element of document.querySelectorAll("[data-refresh]")) {
      const seconds = Number(element.dataset.refresh);
      if (!asked.has(element)) asked.set(element, Date.now());
      if (Date.now() - asked.get(element) < seconds * 1000 - 50 || isBusy(element)) continue;
      asked.set(element, Date.now());
      htmx.trigger(element, "refresh");
    }
  };
  setInterval(look, 250);

  let open = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    const target = event.detail.target;
    if (!target.matches("[data-refresh]")) return;
    // Somebody began to drag or type while the answer was on its way: it is out of date for them already.
    if (isBusy(target)) event.detail.shouldSwap = false;
    open = [...target.querySelectorAll("details[open][id]")].map((element) => element.id);
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    open = [];
  });
  for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
    document.addEventListener(name, (event) => {
      const element = event.detail.elt.closest("[data-refresh]");
      element?.classList.add("out-of-date");
      if (element) element.dataset.refresh = "15"; // a server in trouble is not asked every other second
    });
  }
})();
