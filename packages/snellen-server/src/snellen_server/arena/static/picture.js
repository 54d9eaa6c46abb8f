"use strict";
// The image of the question: a file that is chosen, dropped or pasted, or an example. The file field and the
// pressed example are all that is kept; a preview is drawn from either, so nothing is sent before it is asked about.
(() => {
  const ask = document.getElementById("ask"), field = ask?.elements.file;
  if (!field) return;
  const drop = document.getElementById("drop"), preview = document.getElementById("preview");
  const remove = document.getElementById("remove"), status = document.getElementById("status");
  const examples = [...ask.querySelectorAll("[data-image]")];
  const LARGEST = 320;
  let choices = 0;

  // Of two images that are chosen one after the other the later is shown, whichever can be drawn first.
  const draw = async (source, words, choice) => {
    let picture = null;
    try { picture = source && await createImageBitmap(source); } catch { status.textContent = "This file cannot be shown."; }
    if (choice !== choices) return;
    preview.hidden = !picture;
    remove.hidden = !source;
    if (!picture) return;
    const scale = Math.min(1, LARGEST / Math.max(picture.width, picture.height));
    preview.width = Math.max(1, Math.round(picture.width * scale));
    preview.height = Math.max(1, Math.round(picture.height * scale));
    preview.getContext("2d").drawImage(picture, 0, 0, preview.width, preview.height);
    preview.setAttribute("aria-label", words);
  };

  const press = (example) => {
    status.textContent = "";
    for (const other of examples) other.setAttribute("aria-pressed", String(other === example));
    return ++choices;
  };

  const showFile = () => {
    const [file] = field.files;
    return draw(file ?? null, `Your image: ${file?.name}`, press(null));
  };

  const showExample = async (example) => {
    field.value = "";
    const image = example.querySelector("img"), choice = press(example);
    await image.decode();
    return draw(image, image.alt, choice);
  };

  const take = (event, files) => {
    const file = [...(files ?? [])].find((one) => one.type.startsWith("image/"));
    if (!file || ask.hidden) return;
    event.preventDefault();
    const chosen = new DataTransfer();
    chosen.items.add(file);
    field.files = chosen.files;
    showFile();
    ask.elements.question.select();
  };

  field.addEventListener("change", showFile);
  remove.addEventListener("click", () => { field.value = ""; draw(null, "", press(null)); field.focus(); });
  document.addEventListener("paste", (event) => take(event, event.clipboardData?.files));
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault(); // else the browser leaves the page for the file
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop") take(event, event.dataTransfer.files);
    });
  }
  for (const example of examples) {
    example.addEventListener("click", () => {
      ask.elements.question.value = example.dataset.question || ask.elements.question.value;
      showExample(example);
    });
  }
  ask.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask.requestSubmit();
  });
  if (examples.length) showExample(examples[0]);
})();
