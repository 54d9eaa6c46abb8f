"use strict";
// Shows what came of a submission as soon as it is known.
async function look() {
  try {
    const answer = await fetch(location.href);
    if (answer.ok && !(await answer.text()).includes('id="waiting"')) return location.reload();
  } catch {
    document.getElementById("waiting").textContent = "The server cannot be reached; load the page again later.";
  }
  setTimeout(look, 2000);
}
setTimeout(look, 2000);
