// Rows of a table with data-order can be dragged by their handle; the order that results is sent by the table's form.
// The buttons beside each row do the same without a mouse and without JavaScript.
"use strict";
(() => {
  let row = null;
  let before = "";
  const ids = (body) => [...body.querySelectorAll("input[name=pack_ids]")].map((input) => input.value).join();

  document.addEventListener("pointerdown", (event) => {
    const handle = event.target.closest("[data-order] .handle");
    if (!handle || event.button) return;
    event.preventDefault();
    row = handle.closest("tr");
    before = ids(row.parentElement);
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
      break;
    }
  });
  const drop = (event) => {
    if (!row) return;
    const dropped = row;
    row = null;
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
