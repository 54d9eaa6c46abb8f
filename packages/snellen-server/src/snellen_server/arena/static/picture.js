"use strict";
// The picture that is asked about: a file that is chosen, dropped or pasted, or an example. The file field and the
// pressed example are all that is kept; a preview is drawn from either, so nothing is sent before it is asked about.
(() => {
  const ask = document.getElementById("ask"), field = ask?.elements.file;
  if (!field) return;
  const drop = document.getElementById("drop"), preview = document.getElementById("preview");
  const remove = document.getElementById("remove"), status = document.getElementById("status"), examples = [...ask.querySelectorAll("[data-picture]")];
  const LARGEST = 320;

  const draw = async (source, words) => {
    let picture = null;
    try { picture = source && await createImageBitmap(source); } catch { words = "This file cannot be shown."; }
    preview.hidden = !picture;
    remove.hidden = !source;
    if (!picture) {
      status.textContent = source ? words : "";
      return;
    }
    const scale = Math.min(1, LARGEST / Math.max(picture.width, picture.height));
    preview.width = Math.max(1, Math.round(picture.width * scale));
    preview.height = Math.max(1, Math.round(picture.height * scale));
    preview.getContext("2d").drawImage(picture, 0, 0, preview.width, preview.height);
    preview.setAttribute("aria-label", words);
  };

  const press = (example) => {
    status.textContent = "";
    for (const other of examples) other.setAttribute("aria-pressed", String(other === example));
  };

  const showFile = () => {
    const [file] = field.files;
    press(null);
    return draw(file ?? null, `Your picture: ${file?.name}`);
  };

  const showExample = async (example) => {
    field.value = "";
    press(example);
    const image = example.querySelector("img");
    await image.decode();
    return draw(image, image.alt);
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
  remove.addEventListener("click", () => { field.value = ""; press(null); draw(null); field.focus(); });
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
