// One page in three states: the start (who rates), an item, and the end (save). All texts enter as text, never as HTML.
const study = JSON.parse(document.getElementById("study").textContent);
const page = document.getElementById("form");
const title = page.querySelector("h1");
const byNumber = new Map(study.items.map((item) => [item.number, item]));
const STORE = `snellen-rating-${study.form}`;
let state = null;
let now = 0;
let keeps = true;

function show(...inner) {
  page.replaceChildren(title, ...inner);
  window.scrollTo(0, 0);
}

// --- what is kept ---------------------------------------------------------------------------------------------

function stored(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    keeps = false;
    return null;
  }
}

function keep() {
  try {
    localStorage.setItem(`${STORE}:${state.rater}`, JSON.stringify(state));
    localStorage.setItem(STORE, state.rater);
  } catch {
    keeps = false;
  }
}

// The order follows from the form and the rater's name: FNV-1a gives the seed, mulberry32 the numbers.
function generator(text) {
  let seed = 2166136261;
  for (const byte of new TextEncoder().encode(text)) seed = Math.imul(seed ^ byte, 16777619);
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), seed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function orderFor(rater) {
  const draw = generator(`${study.form} ${rater}`);
  const order = study.items.map((item) => item.number);
  for (let last = order.length - 1; last > 0; last -= 1) {
    const other = Math.floor(draw() * (last + 1));
    [order[last], order[other]] = [order[other], order[last]];
  }
  return order;
}

function begin(rater) {
  const saved = stored(`${STORE}:${rater}`);
  state = saved ? JSON.parse(saved) : { form: study.form, study: study.study, rater, order: orderFor(rater), ratings: {}, at: 0 };
  keep();
  state.at < state.order.length ? showItem() : showEnd();
}

// --- the start ------------------------------------------------------------------------------------------------

function showStart() {
  const name = element("input", { type: "text", id: "rater", autocomplete: "off", maxlength: "60", required: true });
  const form = element(
    "form",
    { onsubmit: (event) => { event.preventDefault(); if (name.value.trim()) begin(name.value.trim()); } },
    element("p", {}, element("label", { for: "rater" }, "Your name, or the word you were given: "), name),
    element("button", { class: "main", type: "submit" }, "Start"),
  );
  show(
    element("p", { class: "words" }, study.instructions),
    element("p", {}, `${study.items.length} items, ${study.dimensions.length} ratings each. Nothing is sent anywhere: this page keeps what you choose in this browser, and at the end you save it as a file.`),
    form,
  );
  name.focus();
}

// --- an item --------------------------------------------------------------------------------------------------

const current = () => state.order[state.at];
const given = (number) => state.ratings[number] || {};
const missingOf = (number) => study.dimensions.filter((dimension) => !(dimension.name in given(number)));
const unfinished = () => state.order.filter((number) => missingOf(number).length > 0);

function showItem() {
  const item = byNumber.get(current());
  const pictures = item.pictures.map((place, i) => element("img", { src: study.pictures[place], alt: `Image ${i + 1} of ${item.pictures.length}, which the task is about` }));
  show(
    element(
      "div",
      { class: "columns" },
      element("div", {}, ...pictures, element("h2", {}, "Task"), element("p", { class: "words", id: "task", dir: "auto" }, item.task), element("h2", {}, "Reply"), element("p", { class: "words", id: "reply", dir: "auto", tabindex: "0" }, item.reply)),
      element("div", {}, ...study.dimensions.map(row), element("p", { class: "keys" }, `Keys: ${study.values[0]} to ${study.values.at(-1)} rate the marked row, Enter goes on, b goes back.`)),
    ),
    bar(),
  );
  now = Math.max(0, study.dimensions.findIndex((dimension) => !(dimension.name in given(current()))));
  mark();
}

function row(dimension, place) {
  const choices = study.values.map((value) =>
    element(
      "label",
      {},
      element("input", {
        type: "radio", name: dimension.name, value, checked: given(current())[dimension.name] === value,
        "aria-label": `${value}${value === study.values[0] ? ` (${dimension.low})` : value === study.values.at(-1) ? ` (${dimension.high})` : ""}`,
        onchange: () => rate(place, value),
        onfocus: () => { now = place; mark(); },
      }),
      String(value),
    ),
  );
  return element(
    "fieldset",
    {},
    element("legend", {}, dimension.title),
    element("p", { class: "question" }, dimension.question),
    element("div", { class: "scale" }, ...choices),
    element("p", { class: "ends" }, element("span", {}, dimension.low), element("span", {}, dimension.high)),
  );
}

function mark() {
  page.querySelectorAll("fieldset").forEach((one, place) => one.classList.toggle("now", place === now));
}

function rate(place, value) {
  state.ratings[current()] = { ...given(current()), [study.dimensions[place].name]: value };
  keep();
  now = Math.min(place + 1, study.dimensions.length - 1);
  mark();
  page.querySelector(".bar").replaceWith(bar());
}

function bar() {
  const left = unfinished().length;
  return element(
    "div",
    { class: "bar" },
    element("button", { type: "button", onclick: () => go(state.at - 1), disabled: state.at === 0 }, "Back"),
    element("button", { type: "button", class: "main", id: "next", onclick: () => go(state.at + 1) }, state.at + 1 < state.order.length ? "Next" : "To the end"),
    element("output", { "aria-live": "polite" }, `${state.at + 1} of ${state.order.length}; ${left} not finished${keeps ? "" : ". This browser keeps nothing: save before you close it"}`),
    element("button", { type: "button", onclick: () => go(state.order.length) }, "Save"),
  );
}

function go(place) {
  state.at = Math.min(Math.max(place, 0), state.order.length);
  keep();
  state.at < state.order.length ? showItem() : showEnd();
}

document.addEventListener("keydown", (event) => {
  if (!state || state.at >= state.order.length || event.ctrlKey || event.altKey || event.metaKey) return;
  const value = Number(event.key);
  if (/^[0-9]$/.test(event.key) && study.values.includes(value)) {
    page.querySelectorAll("fieldset")[now].querySelector(`input[value="${value}"]`).checked = true;
    rate(now, value);
  } else if (event.key === "Enter" && event.target.tagName !== "BUTTON") go(state.at + 1);
  else if (event.key === "b") go(state.at - 1);
  else return;
  event.preventDefault();
});

// --- the end --------------------------------------------------------------------------------------------------

function showEnd() {
  const left = unfinished();
  const gaps = element(
    "p",
    { class: "warning", id: "gaps" },
    `${left.length} of ${state.order.length} items are not finished. `,
    element("button", { type: "button", onclick: () => go(state.order.indexOf(left[0])) }, "Go to the first"),
  );
  show(
    ...(left.length ? [gaps] : [element("p", { id: "gaps" }, "All items are rated. Thank you.")]),
    element("p", {}, "Save the file, and give it to whoever sent you this form. It says how you rated, and the name you typed."),
    element(
      "p",
      {},
      element("button", { type: "button", class: "main", id: "save-json", onclick: () => save("json", asJson()) }, "Save as JSON"),
      " ",
      element("button", { type: "button", id: "save-csv", onclick: () => save("csv", asCsv()) }, "Save as CSV"),
      " ",
      element("button", { type: "button", onclick: () => go(state.order.length - 1) }, "Back"),
      " ",
      element("button", { type: "button", id: "another", onclick: leave }, "Another person rates"),
    ),
    element("details", {}, element("summary", {}, "No file appears? Copy this text instead"), element("textarea", { readonly: true, id: "text", "aria-label": "Your ratings as text" }, asJson())),
  );
}

function leave() {
  try {
    localStorage.removeItem(STORE);
  } catch {
    keeps = false;
  }
  state = null;
  showStart();
}

function asJson() {
  const { form, study: name, rater, order, ratings } = state;
  return `${JSON.stringify({ form, study: name, rater, order, ratings })}\n`;
}

function asCsv() {
  const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;
  const places = study.items.flatMap((item) => study.dimensions.map((dimension) => [item.number, dimension]));
  const head = ["rater", "form", ...places.map(([number, dimension]) => `${number}. ${dimension.title}`)];
  const cells = [state.rater, state.form, ...places.map(([number, dimension]) => given(number)[dimension.name] ?? "")];
  return `${head.map(quoted).join(",")}\n${cells.map(quoted).join(",")}\n`;
}

function save(suffix, text) {
  const place = URL.createObjectURL(new Blob([text], { type: suffix === "json" ? "application/json" : "text/csv" }));
  const name = state.rater.replace(/[^\p{L}\p{N}]+/gu, "-");
  element("a", { href: place, download: `ratings-${name}.${suffix}` }).click();
}

const last = stored(STORE);
last ? begin(last) : showStart();
