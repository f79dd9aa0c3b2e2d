// The filter of the table of the built-in ops: by name, family, dtype and origin.
"use strict";

const DTYPES = ["bool", "int", "half", "float", "complex"];

/** Tells whether a row of the table is to be seen. */
function isWanted(row, wanted) {
  return (
    row.names.includes(wanted.name.trim().toLowerCase()) &&
    (wanted.family === "" || row.family === wanted.family) &&
    (wanted.dtype === "" || row.dtypes.includes("all") || row.dtypes.includes(wanted.dtype)) &&
    (wanted.origin === "" || moduleOf(row.origin) === wanted.origin)
  );
}

/** Returns the module of the function whose contract an op follows. */
function moduleOf(origin) {
  return origin.slice(0, origin.lastIndexOf("."));
}

/** Reads the rows of a family, which its heading names. */
function readRows(section) {
  const heading = section.querySelector("h2").firstChild.textContent;
  return [...section.querySelectorAll("tbody tr")].map((element) => {
    const cells = [...element.cells].map((cell) => cell.textContent);
    return {
      element,
      section,
      family: heading,
      names: `${cells[0].split("(")[0]} ${cells[1]}`.toLowerCase(),
      dtypes: cells[3],
      origin: cells[6],
    };
  });
}

function makeSelect(label, options) {
  const select = document.createElement("select");
  select.append(new Option(label, ""), ...options.map((option) => new Option(option, option)));
  return select;
}

function addFilter() {
  const page = document.querySelector("article section#the-built-in-ops");
  if (page === null) return;
  const rows = [...page.querySelectorAll("section")].filter((one) => one.querySelector("table")).flatMap(readRows);
  const unique = (values) => [...new Set(values)];
  const name = Object.assign(document.createElement("input"), { type: "search", placeholder: "name of an op" });
  name.setAttribute("aria-label", "name of an op");
  const family = makeSelect("all families", unique(rows.map((row) => row.family)));
  const dtype = makeSelect("all dtypes", DTYPES);
  const origin = makeSelect("all origins", unique(rows.map((row) => moduleOf(row.origin))).sort());
  const count = Object.assign(document.createElement("output"), { className: "count" });
  const form = Object.assign(document.createElement("form"), { className: "ops-filter" });
  form.append(name, family, dtype, origin, count);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", update);
  page.querySelector("h1").after(form);

  function update() {
    const wanted = { name: name.value, family: family.value, dtype: dtype.value, origin: origin.value };
    const seen = rows.filter((row) => isWanted(row, wanted));
    const sections = new Set(seen.map((row) => row.section));
    rows.forEach((row) => {
      row.element.hidden = true;
      row.section.hidden = !sections.has(row.section);
    });
    seen.forEach((row) => (row.element.hidden = false));
    count.textContent = `${seen.length} of ${rows.length} overloads`;
  }
  update();
}

if (typeof document !== "undefined") document.addEventListener("DOMContentLoaded", addFilter);
if (typeof module !== "undefined") module.exports = { isWanted };
