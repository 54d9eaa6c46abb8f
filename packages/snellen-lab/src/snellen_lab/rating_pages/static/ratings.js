"use strict";
// What is chosen is kept at once. Without this script the button keeps it.
const form = document.getElementById("ratings");
const kept = document.getElementById("kept");
let isSending = false;
let hasChanged = false;

const send = () => fetch(form.action, { method: "POST", body: new FormData(form), redirect: "manual", keepalive: true });

// One request at a time: two at once could arrive in the wrong order, and the older choice would stay.
async function keep() {
  hasChanged = true;
  if (isSending) return;
  isSending = true;
  try {
    while (hasChanged) {
      hasChanged = false;
      const answer = await send();
      kept.textContent = answer.type === "opaqueredirect" ? "kept" : "not kept: load the page again";
    }
  } catch {
    kept.textContent = "not kept: the server cannot be reached";
  }
  isSending = false;
}

form.addEventListener("change", keep);
addEventListener("pagehide", () => { if (isSending && hasChanged) send(); });
