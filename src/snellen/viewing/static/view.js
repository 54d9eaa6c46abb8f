"use strict";
// Keyboard, and pages that keep up with runs under way. Every page works without it.

const root = document.querySelector("[data-root]")?.dataset.root ?? "";
const lines = () => [...document.querySelectorAll(".line")];

function move(step) {
  const all = lines();
  if (!all.length) return follow(step > 0 ? "next" : "prev");
  const at = all.findIndex((line) => line.classList.contains("at"));
  const next = all[Math.max(0, Math.min(at + step, all.length - 1))];
  all[at]?.classList.remove("at");
  next.classList.add("at");
  next.querySelector("a").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function follow(rel) {
  const link = document.querySelector(`a[rel=${rel}]`);
  if (link) location.assign(link.href);
}

const keys = {
  j: () => move(1),
  k: () => move(-1),
  n: () => follow("next"),
  p: () => follow("prev"),
  u: () => follow("up"),
  "/": () => {
    const search = document.querySelector("input[type=search]");
    if (search) search.select();
    else location.assign(`${root}/questions`);
  },
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key in keys) {
    event.preventDefault();
    keys[event.key]();
  }
});

// An address holds only what differs from the defaults.
const filters = document.getElementById("filters");
function show() {
  const chosen = new URLSearchParams();
  for (const [name, value] of new FormData(filters)) {
    if (value && !(name === "sort" && value === "order")) chosen.append(name, value);
  }
  const query = chosen.toString();
  location.assign(query ? `${root}/questions?${query}` : `${root}/questions`);
}
filters?.addEventListener("change", (event) => {
  if (event.target.type !== "search") show();
});
filters?.addEventListener("submit", (event) => {
  event.preventDefault();
  show();
});

// On a small screen the questions come first.
if (matchMedia("(max-width: 48rem)").matches) document.getElementById("more")?.removeAttribute("open");

// What is under way is asked for again; a reader who works there is not disturbed.
async function keepUp() {
  const live = document.getElementById("live");
  if (!live) return;
  try {
    const answer = await fetch(location.href);
    if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("live");
      const isUsed = live.contains(document.activeElement) || live.querySelector("input:checked");
      if (fresh && fresh.outerHTML !== live.outerHTML && !isUsed) live.replaceWith(fresh);
    }
  } catch (error) {
    document.title = "Snellen (the server is gone)";
  }
  setTimeout(keepUp, document.getElementById("live").dataset.live === "1" ? 1500 : 8000);
}
setTimeout(keepUp, 1000);
