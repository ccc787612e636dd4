// Rows of a table with data-order are taken by their handle, with the mouse or with Enter and the arrow keys, and put
// down elsewhere. Meanwhile times, capabilities and the curve are those of the order that it would be: asked for, not
// saved. Escape puts the row back. The buttons beside each row do the same without a mouse and without JavaScript.
"use strict";
(() => {
  let held = null; // {row, body, before: ids, next: the row that it stood before, byKeys}
  let asked = "";
  let timer = 0;
  const ids = (body) => [...body.querySelectorAll("input[name=pack_ids]")].map((input) => input.value).join();
  const formOf = (body) => document.getElementById(body.dataset.order);

  const post = (address, body, values, source) =>
    htmx.ajax("POST", address, { source, target: body, swap: "none", values });
  const ask = (body, wait = 150) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const order = ids(body);
      if (!body.dataset.times || order === asked) return;
      asked = order;
      post(body.dataset.times, body, { order }, body);
    }, wait);
  };

  // An answer holds parts by their ids; a row that was let go meanwhile has had its own answer since.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, xhr, requestConfig } = event.detail;
    if (!target.matches("[data-order]")) return;
    event.detail.shouldSwap = false;
    const isDrop = requestConfig.path === formOf(target)?.getAttribute("action");
    if (isDrop) settle(target);
    if (xhr.status !== 200 || (!isDrop && requestConfig.parameters.order !== ids(target))) return;
    const parts = new DOMParser().parseFromString(xhr.responseText, "text/html").body;
    for (const part of [...parts.children]) document.getElementById(part.id)?.replaceWith(part);
    target.dispatchEvent(new CustomEvent("htmx:load", { bubbles: true, detail: { elt: target.closest("section") } }));
  });

  const number = (body) => [...body.children].forEach((row, at) => {
    row.querySelector("[data-place]").textContent = at + 1;
    row.querySelector("[name=move][value^=up]").disabled = !at;
    row.querySelector("[name=move][value^=down]").disabled = !row.nextElementSibling;
  });
  const settle = (body) => {
    number(body);
    body.querySelector(".dragged")?.classList.remove("dragged");
  };

  const take = (handle, byKeys) => {
    const row = handle.closest("tr"), body = row.parentElement;
    if (held || body.querySelector(".dragged")) return;
    held = { row, body, before: ids(body), next: row.nextElementSibling, byKeys };
    asked = held.before;
    row.classList.add("dragged");
    handle.setAttribute("aria-pressed", "true");
  };
  const letGo = () => {
    const was = held;
    held = null;
    clearTimeout(timer);
    was.row.querySelector(".handle").setAttribute("aria-pressed", "false");
    return was;
  };
  const putDown = () => {
    const { row, body, before } = letGo();
    const order = ids(body);
    if (order === before) {
      row.classList.remove("dragged");
      ask(body, 0);
      return;
    }
    const form = formOf(body);
    const { act_key, seen_ids } = Object.fromEntries(new FormData(form));
    const source = body.closest("section"); // of the form itself, every field would be sent
    post(form.getAttribute("action"), body, { act_key, seen_ids, order }, source).catch(() => form.requestSubmit());
  };
  const putBack = () => {
    const { row, body, next, byKeys } = letGo();
    body.insertBefore(row, next);
    row.classList.remove("dragged");
    number(body);
    if (byKeys) row.querySelector(".handle").focus();
    ask(body, 0);
  };
  const step = (isUp) => {
    const { row, body } = held, other = isUp ? row.previousElementSibling : row.nextElementSibling;
    if (!other) return;
    other[isUp ? "before" : "after"](row);
    row.querySelector(".handle").focus();
    row.scrollIntoView({ block: "nearest" });
    number(body);
    ask(body);
  };

  document.addEventListener("pointerdown", (event) => {
    const handle = event.target.closest("[data-order] .handle");
    if (!handle || event.button || held) return;
    event.preventDefault();
    take(handle, false);
    handle.setPointerCapture(event.pointerId);
  });
  document.addEventListener("pointermove", (event) => {
    if (!held || held.byKeys) return;
    for (const other of held.body.children) {
      const box = other.getBoundingClientRect();
      if (other === held.row || event.clientY < box.top || event.clientY > box.bottom) continue;
      other[event.clientY > box.top + box.height / 2 ? "after" : "before"](held.row);
      number(held.body);
      ask(held.body);
      break;
    }
  });
  document.addEventListener("pointerup", () => { if (held && !held.byKeys) putDown(); });
  document.addEventListener("pointercancel", () => { if (held && !held.byKeys) putBack(); });
  document.addEventListener("keydown", (event) => {
    const handle = event.target.closest?.("[data-order] .handle");
    if (held && event.key === "Escape") putBack();
    else if (held?.byKeys && (event.key === "ArrowUp" || event.key === "ArrowDown")) step(event.key === "ArrowUp");
    else if (handle && (event.key === "Enter" || event.key === " ")) held?.byKeys ? putDown() : take(handle, true);
    else return;
    event.preventDefault();
  });
  document.addEventListener("focusout", (event) => {
    if (held?.byKeys && event.relatedTarget && !held.row.contains(event.relatedTarget)) putBack();
  });
})();
