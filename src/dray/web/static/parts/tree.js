// A tree of reasons: branches open and close, by mouse and keyboard, as the browser does it by itself.
import { html } from "../html.js";

// tree: { label, branches }. The first `open` levels are open.
function Tree({ tree, open = 2 }) {
  if (!tree.branches.length) return html`<div class="leaf">${tree.label}</div>`;
  return html`<details class="branch" open=${open > 0}><summary>${tree.label}</summary>
    <ul>${tree.branches.map((each, place) => html`<li key=${place}><${Tree} tree=${each} open=${open - 1} /></li>`)}</ul>
  </details>`;
}

export const Trees = ({ trees, open }) => html`<div class="trees">${trees.map((each, place) => html`<${Tree} key=${place} tree=${each} open=${open} />`)}</div>`;
