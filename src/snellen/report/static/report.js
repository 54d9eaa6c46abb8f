"use strict";
(() => {
  const STEP = 12;
  const entries = [...document.querySelectorAll("#entries > article")];
  const form = document.getElementById("filters");
  const more = document.getElementById("more");
  const count = document.getElementById("matching");
  const pictures = JSON.parse(document.getElementById("pictures").textContent);
  const names = ["model", "benchmark", "protocol", "outcome"];
  let shown = STEP;
  document.documentElement.classList.add("scripted");

  const fits = (entry) => names.every((name) => !form.elements[name].value || entry.dataset[name] === form.elements[name].value);

  const draw = () => {
    const matching = entries.filter(fits);
    const visible = new Set(matching.slice(0, shown));
    for (const entry of entries) {
      entry.hidden = !visible.has(entry);
      if (!entry.hidden) {
        for (const image of entry.querySelectorAll("img:not([src])")) image.src = pictures[Number(image.dataset.image)];
      }
    }
    count.textContent = `${visible.size} of ${matching.length} shown`;
    more.hidden = visible.size === matching.length;
  };

  form.addEventListener("input", () => { shown = STEP; draw(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => {
    const next = entries.filter(fits)[shown];
    shown += STEP;
    draw();
    if (next) { next.tabIndex = -1; next.focus({ preventScroll: true }); }
  });
  if (entries.length) form.hidden = false;
  draw();

  // A fold is opened for whoever goes to what is in it.
  const open = (place) => { for (let fold = place?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true; };
  const goTo = () => open(document.getElementById(location.hash.slice(1)));
  addEventListener("hashchange", goTo);
  goTo();
  document.querySelector("nav").addEventListener("click", (event) => {
    const place = event.target.closest("a")?.hash;
    if (place) open(document.querySelector(place));
  });

  // What stands behind a mark or a row is in the browser of samples.
  document.addEventListener("click", (event) => {
    const query = event.target.closest("[data-samples]")?.dataset.samples;
    if (!query) return;
    const chosen = new URLSearchParams(query);
    for (const name of names) form.elements[name].value = chosen.get(name) ?? "";
    shown = STEP;
    draw();
    open(form);
    location.hash = "samples";
    event.preventDefault();
    document.getElementById("samples").scrollIntoView();
  });

  // The numbers of a mark, at once and beside the pointer.
  const tip = document.body.appendChild(document.createElement("div"));
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest?.(".chart :is([data-tip], :has(> title))");
    const title = mark?.querySelector(":scope > title");
    if (title) { mark.dataset.tip = title.textContent; title.remove(); }
    tip.textContent = mark?.dataset.tip ?? "";
    tip.hidden = !mark;
  });
  document.addEventListener("pointermove", (event) => {
    if (tip.hidden) return;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18, above = event.clientY - tip.offsetHeight - 12;
    tip.style.left = `${Math.max(left, 8)}px`;
    tip.style.top = `${below + tip.offsetHeight > innerHeight ? above : below}px`;
  });
})();
