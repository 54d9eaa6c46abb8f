"use strict";
// One battle at a time: ask, show both replies while they come, vote, show the names. All text is set as text.
(() => {
  const waiting = document.querySelector("[data-again]");
  if (waiting) setTimeout(() => location.reload(), 1000 * waiting.dataset.again);
  const arena = document.getElementById("arena");
  if (!arena) return;
  const find = (place) => arena.querySelector(place);
  const kind = arena.dataset.kind;
  const sides = kind === "chat" ? ["left"] : ["left", "right"];
  const ask = find("#ask"), more = find("#more"), votes = find("#votes"), turns = find("#turns");
  const battle = { id: "", token: "", named: {}, isBusy: false, canVote: false };

  const say = (text, isFault) => {
    find("#status").textContent = text;
    find("#status").classList.toggle("fault", Boolean(isFault));
  };

  const read = async (address, request) => {
    const answer = await fetch(address, request);
    if (answer.ok) return answer;
    let message = `the server answered ${answer.status}`;
    try { message = (await answer.json()).error.message; } catch { /* no JSON: the number has to do */ }
    throw new Error(message);
  };

  const send = (address, body) => {
    const token = document.querySelector("meta[name=csrf-token]").content;
    const isFile = body instanceof FormData;
    const headers = { "x-csrf-token": token, ...(isFile ? {} : { "content-type": "application/json" }) };
    return read(address, { method: "POST", headers, body: isFile ? body : JSON.stringify(body) });
  };

  const battleAddress = (rest = "") => `/api/v1/arena/battles/${battle.id}${rest}`;

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
      const name = battle.named[side]?.name ?? (side === "left" ? "Left" : "Right");
      box.append(element("h2", "", name), element("div", "reply", ""));
      row.append(box);
    }
    turn.append(row);
    turns.append(turn);
    find("#battle").hidden = false;
    return (side) => row.querySelector(`[data-side=${side}]`);
  };

  const showImages = (digests) => {
    const images = digests.map((digest, index) => {
      const image = element("img", "");
      image.alt = digests.length > 1 ? `Image ${index + 1} of the question` : "The image of the question";
      image.src = `/images/${digest}`;
      return image;
    });
    find("#images").replaceChildren(...images);
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
    throw new Error("the connection broke off; load the page again, and the battle goes on");
  };

  const offer = (token) => {
    battle.token = token;
    battle.canVote = kind !== "chat";
    if (votes) votes.hidden = false;
    if (more) more.hidden = false;
    find("#again").hidden = false;
    say(kind === "chat" ? "" : "Both have replied. Vote" + (more ? ", or ask further." : "."));
  };

  const reveal = (voted, text) => {
    for (const heading of turns.querySelectorAll("h2")) {
      heading.textContent = voted[heading.parentElement.dataset.side].name;
    }
    find("#names").textContent = `Left was ${voted.left.name}, right was ${voted.right.name}.`;
    find("#names").hidden = find("#again").hidden = false;
    say(text);
  };

  const isWorking = (does) => {
    battle.isBusy = does;
    for (const button of arena.querySelectorAll("button")) button.disabled = does;
    if (!does) return;
    battle.canVote = false;
    for (const part of [votes, more, find("#again")]) if (part) part.hidden = true;
  };

  // What is done, and what is said when it fails: with the battle as the server has it, where it is still there.
  const attempt = async (work) => {
    if (battle.isBusy) return;
    isWorking(true);
    try {
      await work();
    } catch (error) {
      const found = battle.id ? await read(battleAddress()).then((answer) => answer.json()).catch(() => null) : null;
      if (found?.state === "answered" || found?.state === "voted") {
        await show(found);
      } else {
        for (const box of turns.querySelectorAll("[aria-busy=true]")) box.setAttribute("aria-busy", "false");
        ask.hidden = false;
      }
      say(error.message, true);
    } finally {
      isWorking(false);
    }
  };

  const clear = () => {
    battle.id = battle.token = "";
    battle.canVote = false;
    turns.replaceChildren();
    find("#names").hidden = true;
    find("#battle").hidden = true;
  };

  // A battle as the server has it: begun before the page was loaded, or changed in another tab.
  const show = async (found) => {
    clear();
    battle.id = found.id;
    battle.named = found;
    ask.hidden = true;
    showImages(found.images);
    let sideOf;
    for (const turn of found.turns) {
      sideOf = showTurn(turn.question);
      for (const side of sides) {
        if (turn[side] === null) continue;
        sideOf(side).querySelector(".reply").textContent = turn[side];
        sideOf(side).setAttribute("aria-busy", "false");
      }
    }
    if (found.state === "voted") return reveal(found, "You have voted on this battle.");
    if (found.state === "answered") return offer(found.token);
    say("The replies are still being written.");
    await follow(await read(battleAddress("/events")), sideOf);
  };

  const imagesToAsk = async () => {
    const digests = [];
    for (const file of find("[name=file]").files) {
      const form = new FormData();
      form.append("file", file);
      say(`${file.name} is being sent.`);
      digests.push((await (await send("/api/v1/images", form)).json()).digest);
    }
    const example = ask.querySelector("[data-image][aria-pressed=true]");
    if (example) digests.push(example.dataset.image);
    if (digests.length || arena.dataset.withoutImage) return digests;
    throw new Error("choose an image, paste or drop one, or take an example");
  };

  const begin = async () => {
    clear();
    if (kind === "offline") return show(await (await send("/api/v1/arena/recorded", {})).json());
    const question = ask.elements.question.value;
    const images = await imagesToAsk();
    const body = { kind, question, images };
    battle.named = {};
    for (const side of kind === "anonymous" ? [] : sides) {
      body[side] = find(`[name=${side}]`).value;
      battle.named[side] = { name: body[side] };
    }
    const answer = await send("/api/v1/arena/battles", body);
    more.reset();
    say(kind === "chat" ? "The model replies." : "Both models reply.");
    showImages(images);
    ask.hidden = true;
    await follow(answer, showTurn(question));
  };

  const askFurther = async () => {
    const question = more.elements.question.value;
    const answer = await send(battleAddress("/turns"), { question });
    await follow(answer, showTurn(question));
    more.reset();
  };

  const voteFor = (outcome) => attempt(async () => {
    const voted = await (await send(battleAddress("/vote"), { token: battle.token, outcome, consent: find("#consent")?.checked ?? false })).json();
    reveal(voted, `Your vote is counted: ${outcome}.`);
  }).then(() => { if (!find("#names").hidden) find("#again").focus(); });

  ask.addEventListener("submit", (event) => { event.preventDefault(); attempt(begin); });
  more?.addEventListener("submit", (event) => { event.preventDefault(); attempt(askFurther); });
  votes?.addEventListener("click", (event) => {
    const outcome = event.target.closest("button")?.dataset.outcome;
    if (outcome && battle.canVote) voteFor(outcome);
  });
  find("#again").addEventListener("click", () => {
    const isOpen = battle.canVote;
    clear();
    ask.hidden = false;
    say(isOpen ? "The battle before ends without a vote as soon as you begin another; load the page again to go back to it." : "");
    (ask.elements.question ?? ask.querySelector("button")).focus();
  });
  const KEYS = { 1: "left", 2: "right", 3: "tie", 4: "both bad", ArrowLeft: "left", ArrowRight: "right" };
  document.addEventListener("keydown", (event) => {
    const isWriting = event.target.closest("input:not([type=checkbox]), textarea, select");
    if (!battle.canVote || isWriting || !find("#keys")?.checked || event.ctrlKey || event.metaKey || event.altKey) return;
    if (KEYS[event.key]) { event.preventDefault(); voteFor(KEYS[event.key]); }
  });
  if (arena.dataset.battle) attempt(() => show(JSON.parse(arena.dataset.battle)));
})();
