// A button with data-copy puts its text on the clipboard. Without JavaScript the full text stands in the title.
"use strict";
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
  } catch {
    // The clipboard needs a secure page; select the text instead, so that it can be copied by hand.
    const range = document.createRange();
    const code = button.previousElementSibling || button;
    code.textContent = button.dataset.copy;
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    return;
  }
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1500);
});
