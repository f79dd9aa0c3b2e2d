"use strict";
(() => {
const search = document.createElement("input");
search.type = "search";
search.placeholder = "Search (/)";
search.setAttribute("aria-label", "Search rows");
document.querySelector("main h1").after(search);
search.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll("main tr:not(:has(th))")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target === search) return;
  event.preventDefault();
  search.focus();
});
})();
