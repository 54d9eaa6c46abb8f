"use strict";

// What forms are built of: elements whose texts enter as text, never as HTML.
function element(kind, attributes = {}, ...inner) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== "") made.setAttribute(name, value);
  }
  made.append(...inner);
  return made;
}
