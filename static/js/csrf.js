// Gives htmx's requests the token of the page's forms, so that no form needs a header attribute of its own.
"use strict";
document.addEventListener("htmx:configRequest", (event) => {
  const field = document.querySelector("input[name=csrfmiddlewaretoken]");
  if (field && event.detail.verb !== "get") event.detail.headers["X-CSRFToken"] = field.value;
});
// A refusal or an error carries a page that says why: show it instead of dropping it.
document.addEventListener("htmx:responseError", (event) => {
  const answer = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
  const sentence = answer.querySelector("main .sentence, .notice.error");
  if (!sentence) return;
  document.getElementById("refusal")?.remove();
  const notice = document.createElement("p");
  notice.id = "refusal";
  notice.className = "notice error";
  notice.setAttribute("role", "alert");
  notice.textContent = sentence.textContent;
  document.getElementById("main").prepend(notice);
});
