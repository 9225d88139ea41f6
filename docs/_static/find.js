// Shows the rows of all tables of a page that hold the word in the field "find-row".
const field = document.getElementById("find-row");
field.addEventListener("input", () => {
  const word = field.value.trim().toLowerCase();
  for (const row of document.querySelectorAll("article tbody tr")) {
    row.hidden = !row.textContent.toLowerCase().includes(word);
  }
  for (const section of document.querySelectorAll("article section section")) {
    section.hidden = section.querySelector("tbody tr:not([hidden])") === null;
  }
});
