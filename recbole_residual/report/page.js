"use strict";
(() => {
  const number = (text) => {
    const value = parseFloat(text.replaceAll(",", "").replace("> ", ""));
    return Number.isNaN(value) ? -Infinity : value;
  };
  const shown = (cell) => (cell.firstChild ? cell.firstChild.textContent : "");

  const sort = (table, column, head) => {
    const ascending = head.getAttribute("aria-sort") !== "ascending";
    const numeric = head.classList.contains("number");
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const compare = (a, b) => {
      const [x, y] = [a, b].map((row) => shown(row.cells[column]));
      return numeric ? number(x) - number(y) : x.localeCompare(y, undefined, { numeric: true });
    };
    rows.sort((a, b) => (ascending ? compare(a, b) : compare(b, a)));
    body.append(...rows);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  };

  const copy = async (text) => {
    if (navigator.clipboard && window.isSecureContext) {
      await navigator.clipboard.writeText(text);
      return;
    }
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  };

  for (const table of document.querySelectorAll(".rr table")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.classList.add("sorts");
      head.tabIndex = 0;
      head.title = "Sort";
      head.addEventListener("click", () => sort(table, column, head));
      head.addEventListener("keydown", (event) => {
        if (event.key === "Enter") sort(table, column, head);
      });
    });
    const button = document.createElement("button");
    button.type = "button";
    button.className = "csv";
    button.textContent = "Copy as csv";
    button.addEventListener("click", async () => {
      await copy(table.dataset.csv);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy as csv"; }, 1500);
    });
    table.closest(".scroll").after(button);
  }

  const links = new Map(
    [...document.querySelectorAll(".rr nav a")].map((link) => [link.hash.slice(1), link]),
  );
  const sections = [...document.querySelectorAll(".rr section")];
  const follow = () => {
    const line = window.innerHeight / 3;
    const above = sections.filter((section) => section.getBoundingClientRect().top < line);
    const current = (above.at(-1) || sections[0]).id;
    for (const [name, link] of links) link.classList.toggle("here", name === current);
  };
  document.addEventListener("scroll", follow, { passive: true });
  follow();
})();
