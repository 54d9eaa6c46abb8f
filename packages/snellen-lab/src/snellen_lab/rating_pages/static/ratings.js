"use strict";
// What is chosen is kept at once. Without this script the button keeps it.
const form = document.getElementById("ratings");
const kept = document.getElementById("kept");
form.addEventListener("change", async () => {
  try {
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form), redirect: "manual" });
    kept.textContent = answer.type === "opaqueredirect" ? "kept" : "not kept: load the page again";
  } catch {
    kept.textContent = "not kept: the server cannot be reached";
  }
});
