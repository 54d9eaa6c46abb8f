// One question at a time: the rater answers it, then sees the key, then says whether the question is good.
// All texts enter as text, never as HTML.
const audit = JSON.parse(document.getElementById("audit").textContent);
const page = document.getElementById("form");
const heading = page.querySelector("h1");
const LETTERS = "abcdefghijklmnopqr";
const STORE = `snellen-audit-${audit.draw}`;
const VISIT = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
const given = new Map();
const history = [];
let rater = audit.by;
let at = 0;
let own = null;
let keeps = true;
let trouble = "";
let sent = 0;

function show(...inner) {
  page.replaceChildren(heading, ...inner);
  window.scrollTo(0, 0);
}

// --- what is kept: on the server that gave the page, or in this browser until it is saved -----------------------

function keep() {
  if (audit.sends) return;
  try {
    localStorage.setItem(`${STORE}:${rater}`, JSON.stringify([...given]));
  } catch {
    keeps = false;
  }
}

function send(record) {
  if (!audit.sends) return;
  sent += 1;
  // Requests may overtake one another: the server drops a label that a later one of this visit has replaced.
  const headers = { "Content-Type": "application/json", "Audit-Visit": VISIT, "Audit-Order": String(sent) };
  // `keepalive`: a label on its way arrives even if the page is left.
  fetch(audit.sends, { method: "POST", keepalive: true, headers, body: JSON.stringify(record) })
    .then((answer) => { trouble = answer.ok ? "" : "The last label could not be kept: see the terminal."; })
    .catch(() => { trouble = "The last label could not be kept: the command has ended. Start it again and load this page anew."; })
    .finally(() => { if (trouble) showItem(); });
}

function record(item, label, answer) {
  return { item: item.id, label, by: rater, sample_id: item.name, answer: answer || "", settles: audit.settles };
}

function give(label) {
  const item = audit.items[at];
  const before = given.get(item.id);
  history.push([at, before]);
  const answer = typeof own === "number" ? item.rounds[0].options[own] : "";
  given.set(item.id, { label, answer });
  keep();
  send(record(item, label, answer));
  go(nextOpen(at + 1));
}

function undo() {
  if (!history.length) return;
  const [place, before] = history.pop();
  const item = audit.items[place];
  before ? given.set(item.id, before) : given.delete(item.id);
  keep();
  send(record(item, before ? before.label : null, before ? before.answer : ""));
  go(place);
}

// --- the start --------------------------------------------------------------------------------------------------

function begin(name) {
  rater = name;
  for (const [id, label] of Object.entries(audit.given)) given.set(id, label);
  if (!audit.sends) {
    try {
      for (const [id, label] of JSON.parse(localStorage.getItem(`${STORE}:${rater}`) || "[]")) given.set(id, label);
    } catch {
      keeps = false;
    }
  }
  go(nextOpen(0));
}

function showStart() {
  const name = element("input", { type: "text", id: "rater", autocomplete: "off", maxlength: "60", required: true });
  show(
    element("p", {}, `${audit.items.length} questions. Answer each one yourself, then see its key, then say whether the question is good. Nothing is sent anywhere: at the end you save what you said as a file.`),
    element("form", { onsubmit: (event) => { event.preventDefault(); if (name.value.trim()) begin(name.value.trim()); } },
      element("p", {}, element("label", { for: "rater" }, "Your name: "), name),
      element("button", { class: "main", type: "submit" }, "Start")),
  );
  name.focus();
}

// --- a question -------------------------------------------------------------------------------------------------

const isGiven = (place) => given.has(audit.items[place].id);

function nextOpen(from) {
  for (let place = from; place < audit.items.length; place += 1) if (!isGiven(place)) return place;
  for (let place = 0; place < from && place < audit.items.length; place += 1) if (!isGiven(place)) return place;
  return audit.items.length;
}

function go(place) {
  at = Math.min(Math.max(place, 0), audit.items.length);
  own = at < audit.items.length && (isGiven(at) || audit.settles) ? true : null;
  at < audit.items.length ? showItem() : showEnd();
}

function answer(place) {
  own = place;
  showItem();
}

function showItem() {
  const item = audit.items[at];
  const pictures = item.pictures.map((place, i) => element("img", { src: audit.pictures[place], alt: `Image ${i + 1} of ${item.pictures.length}` }));
  show(
    element("progress", { max: audit.items.length, value: given.size, "aria-label": "labelled" }),
    element("div", { class: "columns" },
      element("div", {}, ...(pictures.length ? pictures : [element("p", { class: "warning" }, "This question has no image.")])),
      element("div", {}, ...(item.context ? [element("p", { class: "words", dir: "auto" }, item.context)] : []), ...item.rounds.flatMap(round), ...verdicts(item))),
    bar(),
  );
}

function round(question, number) {
  const first = number === 0;
  const options = question.options.map((text, place) => {
    const right = own !== null && question.gold.includes(place);
    const marks = ["option", ...(right ? ["right"] : []), ...(first && own === place ? ["own"] : [])];
    return element("button", { type: "button", class: marks.join(" "), disabled: own !== null, onclick: () => answer(place) },
      element("kbd", {}, first && place < LETTERS.length ? LETTERS[place].toUpperCase() : "·"),
      element("span", { dir: "auto" }, text + (right ? "  (the key)" : "")));
  });
  const texts = !question.options.length && own !== null ? [element("p", { class: "told" }, `The key: ${question.texts.join(" / ")}`)] : [];
  return [element("p", { class: "words question", dir: "auto", id: first ? "question" : "" }, question.question), ...options, ...texts];
}

function verdicts(item) {
  if (own === null) {
    return [element("p", { class: "keys" }, "Answer it yourself: press its letter. ", element("button", { type: "button", id: "reveal", onclick: () => answer(true) }, "Show the key (space)"))];
  }
  const now = given.get(item.id);
  const key = item.rounds[0].gold;
  const told = typeof own === "number" ? [element("p", { class: "told" }, key.includes(own) ? "You and the key agree." : "You and the key differ.")] : [];
  const others = audit.settles ? [element("p", { class: "told", id: "others" }, Object.entries(item.labels).map(([by, label]) => `${by}: ${label}`).join("; "))] : [];
  return [
    ...told, ...others,
    element("div", { class: "verdicts", role: "group", "aria-label": "The question is" }, ...audit.labels.map((label, place) =>
      element("button", { type: "button", class: now && now.label === label ? "given" : "", "aria-pressed": String(Boolean(now && now.label === label)), onclick: () => give(label) }, element("kbd", {}, `${place + 1}  `), label))),
  ];
}

function bar() {
  const left = audit.items.length - given.size;
  return element("div", { class: "bar" },
    element("button", { type: "button", onclick: () => go(at - 1), disabled: at === 0 }, "← Back"),
    element("button", { type: "button", onclick: undo, disabled: !history.length }, "Undo (u)"),
    element("button", { type: "button", onclick: () => go(at + 1) }, "Skip (s) →"),
    element("output", { "aria-live": "polite" }, `${at + 1} of ${audit.items.length}; ${left} to label${rater ? `, by ${rater}` : ""}${keeps ? "" : ". This browser keeps nothing: save before you close it"}${trouble ? `. ${trouble}` : ""}`),
    element("button", { type: "button", onclick: () => go(audit.items.length) }, audit.sends ? "Stop" : "Save"));
}

document.addEventListener("keydown", (event) => {
  if (rater === "" || at >= audit.items.length || event.ctrlKey || event.altKey || event.metaKey) return;
  const pressed = event.key.toLowerCase();
  const letter = pressed.length === 1 ? LETTERS.indexOf(pressed) : -1;
  const verdict = own !== null && /^[1-9]$/.test(pressed) ? audit.labels[Number(pressed) - 1] : undefined;
  if (verdict) give(verdict);
  else if (pressed === "u") undo();
  else if (pressed === "s" || pressed === "arrowright") go(at + 1);
  else if (pressed === "arrowleft") go(at - 1);
  else if (own === null && letter >= 0 && letter < audit.items[at].rounds[0].options.length) answer(letter);
  else if (own === null && pressed === " ") answer(true);
  else return;
  event.preventDefault();
});

// --- the end ----------------------------------------------------------------------------------------------------

function asLines() {
  return audit.items.filter((item) => given.has(item.id)).map((item) => `${JSON.stringify(record(item, given.get(item.id).label, given.get(item.id).answer))}\n`).join("");
}

function save() {
  const place = URL.createObjectURL(new Blob([asLines()], { type: "application/jsonl" }));
  element("a", { href: place, download: `labels-${rater.replace(/[^\p{L}\p{N}]+/gu, "-")}.jsonl` }).click();
}

function showEnd() {
  const left = audit.items.length - given.size;
  show(
    element("p", { id: "left" }, left ? `${left} of ${audit.items.length} questions are not labelled.` : "All questions are labelled. Thank you."),
    ...(audit.sends
      ? [element("p", {}, "All labels are kept. Close this page, and end the command in the terminal with Ctrl-C.")]
      : [element("p", {}, "Save the file, and give it to whoever sent you this page."), element("p", {}, element("button", { type: "button", class: "main", id: "save", onclick: save }, "Save"))]),
    element("p", {}, element("button", { type: "button", onclick: () => go(left ? nextOpen(0) : audit.items.length - 1) }, left ? "Go to the first" : "Back")),
  );
}

rater ? begin(rater) : showStart();
