"use strict";
// The numbers of a mark, at once, beside the pointer or the focus. Tab goes from chart to chart, arrows from mark to mark,
// Enter to the samples behind one.
(() => {
  const MARK = ".chart :is([data-tip], :has(> title))";
  const tip = document.body.appendChild(document.createElement("div"));
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");

  const numbers = (mark) => {
    const title = mark.querySelector(":scope > title");
    if (title) {
      mark.dataset.tip = title.textContent;
      mark.setAttribute("aria-label", title.textContent);
      mark.setAttribute("role", mark.dataset.samples ? "link" : "img");
      title.remove();
    }
    return mark.dataset.tip;
  };
  const tell = (mark, x, y, height) => {
    tip.textContent = mark ? numbers(mark) : "";
    tip.hidden = !mark;
    if (!mark) return;
    const left = Math.min(x + 14, innerWidth - tip.offsetWidth - 8);
    const below = y + height, above = y - tip.offsetHeight - 12;
    tip.style.left = `${Math.max(left, 8)}px`;
    tip.style.top = `${below + tip.offsetHeight > innerHeight ? above : below}px`;
  };
  document.addEventListener("pointermove", (event) => tell(event.target.closest?.(MARK), event.clientX, event.clientY, 18));
  document.addEventListener("focusin", (event) => {
    const mark = event.target.closest?.(MARK);
    if (!mark) return tell();
    const box = mark.getBoundingClientRect();
    tell(mark, box.right - 8, box.top, box.height + 8);
  });
  document.addEventListener("focusout", () => tell());

  // One mark of a chart is in the order of tabs: the first, then the one that was reached last.
  const reach = (chart, mark) => {
    chart.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    numbers(mark);
    mark.setAttribute("tabindex", "0");
  };
  for (const chart of document.querySelectorAll(".chart")) {
    const first = chart.querySelector(":is([data-tip], :has(> title))");
    if (!first) continue;
    chart.setAttribute("role", "group");
    reach(chart, first);
  }
  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  document.addEventListener("keydown", (event) => {
    const mark = event.target.closest?.(MARK);
    if (!mark || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") return tell();
    if (event.key === "Enter") {
      mark.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
    } else if (event.key in STEPS) {
      const chart = mark.closest(".chart");
      const marks = [...chart.querySelectorAll(":is([data-tip], :has(> title))")];
      const next = marks[Math.max(0, Math.min(marks.indexOf(mark) + STEPS[event.key], marks.length - 1))];
      reach(chart, next);
      next.focus();
    } else return;
    event.preventDefault();
  });
})();
