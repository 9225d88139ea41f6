// What the page does a little better with script: names are completed, forms are sent once, and
// texts are copied. Nothing needs it.
"use strict";
document.documentElement.classList.add("js");

const FUNCTIONS = ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "HAVING", "AS", "AND", "OR", "NOT",
  "IN", "BETWEEN", "IS NULL", "IS NOT NULL", "COUNT(*)", "COUNT(DISTINCT ", "COUNT_IF(", "SUM(", "AVG(", "MEDIAN(",
  "QUANTILE(", "MIN(", "MAX(", "STDDEV(", "VARIANCE(", "FILTER (WHERE ", "CASE WHEN ", "CAST("];

// A name of the schema as SQL has it.
const quoted = (name) => (/^[a-z_][a-z0-9_]*$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`);

function insert(area, text, typed) {
  const end = area.selectionStart;
  area.setRangeText(text, end - typed, area.selectionEnd, "end");
  area.focus();
}

function complete(area) {
  const names = [...document.querySelectorAll("[data-name]")].map((one) => quoted(one.dataset.name));
  const words = [...new Set([...names, ...FUNCTIONS])];
  const list = document.createElement("ul");
  list.className = "completions";
  list.id = "completions";
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Names");
  area.after(list);
  area.setAttribute("role", "combobox");
  area.setAttribute("aria-autocomplete", "list");
  area.setAttribute("aria-controls", list.id);
  area.setAttribute("aria-expanded", "false");
  let chosen = -1;
  let typed = "";

  function close() {
    list.hidden = true;
    chosen = -1;
    area.setAttribute("aria-expanded", "false");
    area.removeAttribute("aria-activedescendant");
  }
  function choose(place) {
    const lines = [...list.children];
    chosen = place < 0 ? lines.length - 1 : place % lines.length;
    lines.forEach((line, at) => line.setAttribute("aria-selected", String(at === chosen)));
    area.setAttribute("aria-activedescendant", lines[chosen].id);
    lines[chosen].scrollIntoView({ block: "nearest" });
  }
  function open() {
    const before = area.value.slice(0, area.selectionStart);
    typed = (before.match(/[\p{L}\p{N}_"]+$/u) || [""])[0];
    const low = typed.replace(/^"/, "").toLowerCase();
    const fits = words.filter((one) => {
      const plain = one.replace(/^"/, "").toLowerCase();
      return plain.startsWith(low) && plain !== low;
    });
    if (!low || !fits.length) return close();
    list.replaceChildren(...fits.slice(0, 12).map((word, at) => {
      const line = document.createElement("li");
      line.id = `completion${at}`;
      line.setAttribute("role", "option");
      line.textContent = word;
      line.addEventListener("mousedown", (event) => { event.preventDefault(); take(word); });
      return line;
    }));
    const lines = before.split("\n");
    const height = parseFloat(getComputedStyle(area).lineHeight);
    list.style.top = `${area.offsetTop + Math.min(lines.length * height - area.scrollTop + 12, area.offsetHeight)}px`;
    list.style.left = `${area.offsetLeft + 10}px`;
    list.hidden = false;
    area.setAttribute("aria-expanded", "true");
    area.removeAttribute("aria-activedescendant");
    chosen = -1;
  }
  function take(word) {
    insert(area, word, typed.length);
    close();
  }
  area.addEventListener("input", open);
  area.addEventListener("blur", close);
  area.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Escape") close();
    else if (chosen >= 0 && ["Tab", "Enter"].includes(event.key)) take(list.children[chosen].textContent);
    else return;
    event.preventDefault();
  });
}

document.querySelectorAll("textarea[data-complete]").forEach((area) => {
  complete(area);
  document.querySelectorAll("[data-name]").forEach((one) => {
    one.addEventListener("click", () => {
      if (!area.closest("[hidden]")) insert(area, quoted(one.dataset.name), 0);
    });
  });
});

document.querySelectorAll("form[data-once]").forEach((form) => {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) return event.preventDefault();
    form.dataset.sent = "yes";
    form.querySelectorAll("button").forEach((one) => one.setAttribute("aria-disabled", "true"));
    if (event.submitter && event.submitter.classList.contains("main")) event.submitter.textContent = "Asking …";
  });
});
// A page that is shown again from the browser's memory may be sent again: the server pays once.
window.addEventListener("pageshow", () => {
  document.querySelectorAll("form[data-once]").forEach((form) => { delete form.dataset.sent; });
});

document.querySelectorAll("select[data-submit]").forEach((select) => {
  select.addEventListener("change", () => {
    const button = select.form.querySelector(`button[value="${select.dataset.submit}"]`);
    select.form.requestSubmit(button);
  });
});

document.querySelectorAll("[data-copy]").forEach((button) => {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
});

const scheme = document.getElementById("scheme");
scheme.value = document.documentElement.dataset.scheme || "";
scheme.addEventListener("change", () => {
  if (scheme.value) document.documentElement.dataset.scheme = scheme.value;
  else delete document.documentElement.dataset.scheme;
  try { localStorage.setItem("unacorda-scheme", scheme.value); } catch { /* it holds for this page */ }
});

document.querySelectorAll("[data-search]").forEach((field) => {
  const lines = [...field.closest("details").querySelectorAll("li")];
  field.addEventListener("input", () => {
    const low = field.value.trim().toLowerCase();
    lines.forEach((line) => { line.hidden = !line.textContent.toLowerCase().includes(low); });
  });
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
});
