"use strict";
// The table of points: filters for its axes, headings that sort.
for (const section of document.querySelectorAll("section.points")) {
  const body = section.querySelector("tbody");
  const rows = [...body.rows];
  const filters = section.querySelector(".filters");
  const fields = [...filters.querySelectorAll("select, input")];
  const count = filters.querySelector(".count");

  const filter = () => {
    let shown = 0;
    for (const row of rows) {
      row.hidden = !fields.every((field) => {
        const text = row.cells[field.dataset.column].textContent;
        if (field.value === "") return true;
        return field.tagName === "SELECT"
          ? text === field.value
          : text.toLowerCase().includes(field.value.trim().toLowerCase());
      });
      if (!row.hidden) shown += 1;
    }
    count.textContent = shown + " of " + rows.length + " rows";
  };
  for (const field of fields) field.addEventListener("input", filter);
  filters.querySelector("button").addEventListener("click", () => {
    for (const field of fields) field.value = "";
    filter();
  });
  filters.hidden = fields.length === 0;
  filter();

  // Numbers by value, words by letters; what is empty last. Rows that are equal stay as they were.
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  const compare = (a, b, down) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const both = typeof a === "number" && typeof b === "number";
    const order = both ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    return down ? -order : order;
  };
  const heads = [...section.querySelectorAll("thead th")];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sorted = rows.map((row) => [key(row, column), row]);
      sorted.sort((a, b) => compare(a[0], b[0], down));
      body.append(...sorted.map((pair) => pair[1]));
    });
  });
}
