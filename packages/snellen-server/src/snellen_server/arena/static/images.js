"use strict";
// The images of the question: files that are chosen, dropped or pasted, or an example. The file field and the
// pressed example are all that is kept; previews are drawn from either, so nothing is sent before it is asked about.
(() => {
  const ask = document.getElementById("ask"), field = ask?.elements.file;
  if (!field) return;
  const drop = document.getElementById("drop"), previews = document.getElementById("previews");
  const status = document.getElementById("status");
  const examples = [...ask.querySelectorAll("[data-image]")];
  const mostImages = Number(ask.dataset.maxImages);
  const LARGEST_SIDE = 320;
  let files = [];
  let drawings = 0;

  const previewOf = async (source, label, remove) => {
    const image = await createImageBitmap(source);
    const scale = Math.min(1, LARGEST_SIDE / Math.max(image.width, image.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(image.width * scale));
    canvas.height = Math.max(1, Math.round(image.height * scale));
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", label);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Remove";
    button.setAttribute("aria-label", `Remove ${label}`);
    button.addEventListener("click", remove);
    const item = document.createElement("li");
    item.append(canvas, button);
    return item;
  };

  // Draw all that is chosen now. If the choice changes while images are decoded, the later drawing is the one shown.
  const draw = async () => {
    const drawing = ++drawings;
    const items = [];
    for (const [index, file] of files.entries()) {
      const remove = () => { chooseFiles(files.filter((other) => other !== file)); field.focus(); };
      try {
        items.push(await previewOf(file, `Your image ${index + 1}: ${file.name}`, remove));
      } catch {
        if (drawing === drawings) status.textContent = `${file.name} cannot be shown.`;
      }
    }
    const pressed = examples.find((example) => example.getAttribute("aria-pressed") === "true");
    if (pressed) {
      const image = pressed.querySelector("img");
      await image.decode();
      items.push(await previewOf(image, image.alt, () => { press(null); draw(); field.focus(); }));
    }
    if (drawing === drawings) previews.replaceChildren(...items);
  };

  const press = (example) => {
    for (const other of examples) other.setAttribute("aria-pressed", String(other === example));
  };

  const chooseFiles = (chosen) => {
    status.textContent = chosen.length > mostImages ? `A question has at most ${mostImages} images here.` : "";
    files = chosen.slice(0, mostImages);
    const transfer = new DataTransfer();
    for (const file of files) transfer.items.add(file);
    field.files = transfer.files;
    if (files.length) press(null);
    return draw();
  };

  // Where a question has one image, another one replaces it.
  const addFiles = (added) => chooseFiles(mostImages === 1 ? added.slice(-1) : [...files, ...added]);

  const take = (event, found) => {
    const images = [...(found ?? [])].filter((file) => file.type.startsWith("image/"));
    if (!images.length || ask.hidden) return;
    event.preventDefault();
    addFiles(images);
    ask.elements.question.select();
  };

  field.addEventListener("change", () => addFiles([...field.files]));
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
      chooseFiles([]);
      press(example);
      draw();
    });
  }
  ask.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask.requestSubmit();
  });
  draw();
})();
