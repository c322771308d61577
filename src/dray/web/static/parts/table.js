// A table that sorts by its columns and opens a row by mouse or keyboard.
import { html, useMemo } from "../html.js";
import { useParam } from "../router.js";

const compare = (first, second) => (typeof first === "number" && typeof second === "number"
  ? first - second : String(first).localeCompare(String(second), undefined, { numeric: true }));

// columns: [{ name, title, value: (row) => sortable, cell: (row) => what is shown, number: true for figures,
// whole: true for short texts on one line }]
// rows: array of objects with a `key`. onOpen(row) is called by a click or Enter; `current` is the key of the open row.
// `most` rows are shown; a line says how many are left out. The order is in the address, as ?sort=NAME or -NAME.
export function Table({ caption, columns, rows, onOpen, current, empty = "Nothing to show.", most = 500, sortParam = "sort" }) {
  const [sort, setSort] = useParam(sortParam);
  const down = sort.startsWith("-");
  const column = columns.find((each) => each.name === sort.replace("-", ""));
  const sorted = useMemo(() => {
    if (!column) return rows;
    const made = [...rows].sort((first, second) => compare(column.value(first), column.value(second)));
    return down ? made.reverse() : made;
  }, [rows, sort]);
  const next = (name) => (sort === name ? `-${name}` : sort === `-${name}` ? "" : name);
  const open = (event, row) => {
    if (event.type === "keydown" && event.key !== "Enter") return;
    if (event.target.closest("a, button")) return;
    onOpen(row);
  };
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label=${caption}><table>
    <caption class="hidden">${caption}</caption>
    <thead><tr>${columns.map((each) => html`<th key=${each.name} scope="col" class=${each.number ? "number" : ""}
        aria-sort=${each === column ? (down ? "descending" : "ascending") : undefined}>
      ${each.value ? html`<button type="button" class="sort" onClick=${() => setSort(next(each.name))}>
        ${each.title}<span aria-hidden="true">${each === column ? (down ? " ↓" : " ↑") : ""}</span></button>` : each.title}
    </th>`)}</tr></thead>
    <tbody>${sorted.slice(0, most).map((row) => html`<tr key=${row.key} class=${row.key === current ? "current" : ""}
        aria-selected=${onOpen ? String(row.key === current) : undefined} tabindex=${onOpen ? 0 : undefined}
        onClick=${onOpen && ((event) => open(event, row))} onKeyDown=${onOpen && ((event) => open(event, row))}>
      ${columns.map((each) => html`<td key=${each.name} class=${each.number ? "number" : each.whole ? "whole" : ""}
        title=${each.whole ? each.value(row) : undefined}>${each.cell ? each.cell(row) : each.value(row)}</td>`)}
    </tr>`)}</tbody>
  </table>${rows.length > most && html`<p class="more">${rows.length - most} more are not shown; filter to see them.</p>`}</div>`;
}
