"use strict";
// One battle at a time: ask, show both replies while they come, vote, show the names. All text is set as text.
(() => {
  const arena = document.getElementById("arena");
  if (!arena) return;
  const find = (place) => arena.querySelector(place);
  const kind = arena.dataset.kind;
  const sides = kind === "chat" ? ["left"] : ["left", "right"];
  const ask = find("#ask"), more = find("#more"), votes = find("#votes"), turns = find("#turns");
  const battle = { id: "", token: "", picture: "", isBusy: false, canVote: false };

  const say = (text, isFault) => {
    find("#status").textContent = text;
    find("#status").classList.toggle("fault", Boolean(isFault));
  };

  const send = async (address, body) => {
    const token = document.querySelector("meta[name=csrf-token]").content;
    const isFile = body instanceof FormData;
    const headers = { "x-csrf-token": token, ...(isFile ? {} : { "content-type": "application/json" }) };
    const answer = await fetch(address, { method: "POST", headers, body: isFile ? body : JSON.stringify(body) });
    if (answer.ok) return answer;
    let message = `the server answered ${answer.status}`;
    try { message = (await answer.json()).error.message; } catch { /* no JSON: the number has to do */ }
    throw new Error(message);
  };

  const element = (name, classes, text) => {
    const made = document.createElement(name);
    made.className = classes;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const showTurn = (question) => {
    const turn = element("li", "");
    turn.append(element("p", "asked", question));
    const row = element("div", "sides");
    for (const side of sides) {
      const box = element("div", "side");
      box.dataset.side = side;
      box.setAttribute("aria-busy", "true");
      const name = kind === "named" || kind === "chat" ? find(`[name=${side}]`).value : side === "left" ? "Left" : "Right";
      box.append(element("h2", "", name), element("div", "reply", ""));
      row.append(box);
    }
    turn.append(row);
    turns.append(turn);
    find("#battle").hidden = false;
    return (side) => row.querySelector(`[data-side=${side}]`);
  };

  const showPicture = (digest) => {
    const picture = find("#picture");
    picture.hidden = !digest;
    if (digest) picture.src = `/pictures/${digest}`;
  };

  // The events of a stream, as they come.
  async function* events(answer) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const fields = Object.fromEntries(block.split("\n").map((line) => [line.split(": ")[0], line.slice(line.indexOf(": ") + 2)]));
        if (fields.event) yield { kind: fields.event, said: JSON.parse(fields.data) };
      }
    }
  }

  const follow = async (answer, sideOf) => {
    for await (const { kind: event, said } of events(answer)) {
      if (event === "battle") battle.id = said.id;
      if (event === "text") {
        const reply = sideOf(said.side).querySelector(".reply");
        reply.textContent = said.replace ? said.text : reply.textContent + said.text;
      }
      if (event === "end") sideOf(said.side).setAttribute("aria-busy", "false");
      if (event === "answered") return offer(said.token);
      if (event === "voided") throw new Error(said.message);
    }
    throw new Error("the connection broke off; begin another battle");
  };

  const offer = (token) => {
    battle.token = token;
    battle.canVote = kind !== "chat";
    if (votes) votes.hidden = false;
    if (more) { more.hidden = false; more.reset(); }
    say(kind === "chat" ? "" : "Both have replied. Vote" + (more ? ", or ask further." : "."));
  };

  const isWorking = (does) => {
    battle.isBusy = does;
    battle.canVote = false;
    for (const button of arena.querySelectorAll("button")) button.disabled = does;
    if (does) for (const part of [votes, more]) if (part) part.hidden = true;
  };

  // What is done, and what is said when it fails.
  const attempt = async (work) => {
    if (battle.isBusy) return;
    isWorking(true);
    try {
      await work();
      const canVote = battle.canVote;
      isWorking(false);
      battle.canVote = canVote;
    } catch (error) {
      isWorking(false);
      for (const box of turns.querySelectorAll("[aria-busy=true]")) box.setAttribute("aria-busy", "false");
      ask.hidden = false;
      say(error.message, true);
    }
  };

  const clear = () => {
    battle.id = battle.token = "";
    turns.replaceChildren();
    find("#names").hidden = true;
    find("#battle").hidden = true;
  };

  const pictureToAsk = async () => {
    const file = find("[name=file]").files[0];
    if (file) {
      const form = new FormData();
      form.append("file", file);
      say("The picture is being sent.");
      return (await (await send("/api/v1/pictures", form)).json()).digest;
    }
    if (!battle.picture) throw new Error("choose a picture, or take an example");
    return battle.picture;
  };

  const begin = async () => {
    clear();
    if (kind === "offline") {
      const found = await (await send("/api/v1/arena/recorded", {})).json();
      battle.id = found.id;
      showPicture(found.picture);
      const sideOf = showTurn(found.turns[0].question);
      for (const side of sides) {
        sideOf(side).querySelector(".reply").textContent = found.turns[0][side];
        sideOf(side).setAttribute("aria-busy", "false");
      }
      ask.hidden = true;
      return offer(found.token);
    }
    const question = ask.elements.question.value;
    const picture = await pictureToAsk();
    const body = { kind, question, picture };
    for (const side of kind === "anonymous" ? [] : sides) body[side] = find(`[name=${side}]`).value;
    const answer = await send("/api/v1/arena/battles", body);
    say(kind === "chat" ? "The model replies." : "Both models reply.");
    showPicture(picture);
    ask.hidden = true;
    await follow(answer, showTurn(question));
  };

  const askFurther = async () => {
    const question = more.elements.question.value;
    const answer = await send(`/api/v1/arena/battles/${battle.id}/turns`, { question });
    await follow(answer, showTurn(question));
  };

  const voteFor = (outcome) => attempt(async () => {
    const voted = await (await send(`/api/v1/arena/battles/${battle.id}/vote`, { token: battle.token, outcome })).json();
    for (const heading of turns.querySelectorAll("h2")) {
      heading.textContent = voted[heading.parentElement.dataset.side].name;
    }
    find("#names p").textContent = `Left was ${voted.left.name}, right was ${voted.right.name}.`;
    find("#names").hidden = false;
    say(`Your vote is counted: ${outcome}.`);
  }).then(() => { if (!find("#names").hidden) find("#again").focus(); });

  ask.addEventListener("submit", (event) => { event.preventDefault(); attempt(begin); });
  more?.addEventListener("submit", (event) => { event.preventDefault(); attempt(askFurther); });
  votes?.addEventListener("click", (event) => {
    const outcome = event.target.closest("button")?.dataset.outcome;
    if (outcome && battle.canVote) voteFor(outcome);
  });
  find("#again").addEventListener("click", () => {
    clear();
    ask.hidden = false;
    say("");
    (ask.elements.question ?? ask.querySelector("button")).focus();
  });
  const KEYS = { 1: "left", 2: "right", 3: "tie", 4: "both bad", ArrowLeft: "left", ArrowRight: "right" };
  document.addEventListener("keydown", (event) => {
    const isWriting = event.target.closest("input:not([type=checkbox]), textarea, select");
    if (!battle.canVote || isWriting || !find("#keys")?.checked || event.ctrlKey || event.metaKey || event.altKey) return;
    if (KEYS[event.key]) { event.preventDefault(); voteFor(KEYS[event.key]); }
  });
  for (const example of arena.querySelectorAll("[data-picture]")) {
    example.addEventListener("click", () => {
      for (const other of arena.querySelectorAll("[data-picture]")) other.setAttribute("aria-pressed", String(other === example));
      find("[name=file]").value = "";
      battle.picture = example.dataset.picture;
      ask.elements.question.value = example.dataset.question || ask.elements.question.value;
    });
  }
})();
