// On the board of tiers, a resource can be dragged into another column: dropping it sends the form of its buttons with
// that column's tier. The buttons on each card do the same by keyboard and without JavaScript; after a move by button
// the focus is on the card's button again.
"use strict";
(() => {
  const board = document.querySelector("[data-tiers]");
  if (!board) return;
  let tile = null;
  const columnOf = (event) => event.target.closest(".column");
  const clear = () => board.querySelectorAll(".target").forEach((column) => column.classList.remove("target"));

  board.addEventListener("dragstart", (event) => {
    tile = event.target.closest("[data-resource]");
    if (!tile) return;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", tile.dataset.resource);
  });
  board.addEventListener("dragover", (event) => {
    const column = columnOf(event);
    if (!tile || !column) return;
    event.preventDefault();
    clear();
    column.classList.add("target");
  });
  board.addEventListener("dragend", () => {
    clear();
    tile = null;
  });
  board.addEventListener("drop", (event) => {
    const column = columnOf(event);
    if (!tile || !column) return;
    event.preventDefault();
    const form = tile.querySelector("form[data-move]");
    if (column === tile.closest(".column") || !form) return;
    const to = document.createElement("input");
    to.type = "hidden";
    to.name = "to";
    to.value = column.dataset.tier;
    form.append(to);
    form.requestSubmit();
  });

  board.addEventListener("submit", (event) => {
    if (event.submitter && event.submitter.id) sessionStorage.setItem("tiers-focus", event.submitter.id);
  });
  const last = sessionStorage.getItem("tiers-focus");
  sessionStorage.removeItem("tiers-focus");
  const button = last && (document.getElementById(last) || document.getElementById(last.replace(/^\w+/, (side) => (side === "left" ? "right" : "left"))));
  if (button) button.focus();
})();
