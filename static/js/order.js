// Rows of a table with data-order can be dragged by their handle; the order that results is sent by the table's form.
// The buttons beside each row do the same without a mouse and without JavaScript.
"use strict";
(() => {
  let row = null;
  let before = "";
  let asked = "";
  let timer = 0;
  const ids = (body) => [...body.querySelectorAll("input[name=pack_ids]")].map((input) => input.value).join();

  // While a row is dragged, its table's times are those of the order that it would have: asked for, nothing is saved.
  const ask = (body) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const order = ids(body);
      if (!body.dataset.times || order === asked) return;
      asked = order;
      htmx.ajax("POST", body.dataset.times, { source: body, target: body, swap: "none", values: { order } });
    }, 150);
  };

  document.addEventListener("pointerdown", (event) => {
    const handle = event.target.closest("[data-order] .handle");
    if (!handle || event.button) return;
    event.preventDefault();
    row = handle.closest("tr");
    asked = before = ids(row.parentElement);
    row.classList.add("dragged");
    handle.setPointerCapture(event.pointerId);
  });
  document.addEventListener("pointermove", (event) => {
    if (!row) return;
    for (const other of row.parentElement.children) {
      const box = other.getBoundingClientRect();
      if (other === row || event.clientY < box.top || event.clientY > box.bottom) continue;
      const isAfter = event.clientY > box.top + box.height / 2;
      other[isAfter ? "after" : "before"](row);
      ask(row.parentElement);
      break;
    }
  });
  const drop = (event) => {
    if (!row) return;
    const dropped = row;
    row = null;
    clearTimeout(timer);
    const body = dropped.parentElement;
    if (event.type === "pointercancel") {
      location.reload();
      return;
    }
    if (ids(body) !== before) document.getElementById(body.dataset.order).requestSubmit();
    else dropped.classList.remove("dragged");
  };
  document.addEventListener("pointerup", drop);
  document.addEventListener("pointercancel", drop);
})();
