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
    form.elements.model.focus({ preventScroll: true });
    document.getElementById("samples").scrollIntoView();
  });
})();
