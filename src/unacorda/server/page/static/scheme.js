// Light or dark, where one has chosen: before anything is drawn.
"use strict";
try {
  const chosen = localStorage.getItem("unacorda-scheme");
  if (["light", "dark"].includes(chosen)) document.documentElement.dataset.scheme = chosen;
} catch { /* a browser that keeps nothing goes by the system */ }
