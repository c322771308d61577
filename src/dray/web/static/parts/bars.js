// Small drawings in SVG: a bar of parts, with a text for screen readers.
import { html } from "../html.js";
import { figure } from "./format.js";

// parts: [{ value, colour, title }] of `whole`.
export function Bar({ parts, whole, label, width = 160, height = 12 }) {
  let at = 0;
  return html`<svg class="bar-chart" role="img" aria-label=${label} viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" width=${width} height=${height}>
    <rect class="bar-ground" width=${width} height=${height} rx="2" />
    ${parts.filter((part) => part.value > 0).map((part) => {
      const size = whole ? (width * part.value) / whole : 0;
      at += size;
      return html`<rect key=${part.title} x=${at - size} width=${size} height=${height} fill=${part.colour}><title>${part.title}: ${part.value}</title></rect>`;
    })}
  </svg>`;
}

// entries: [{ colour, title, count }]
export function Legend({ entries }) {
  return html`<ul class="legend" aria-label="Legend">${entries.map((entry) => html`<li key=${entry.title}>
    <svg width="12" height="12" aria-hidden="true"><rect width="12" height="12" rx="2" fill=${entry.colour} /></svg>
    ${entry.title}${entry.count === undefined ? "" : html` <b>${figure(entry.count)}</b>`}</li>`)}</ul>`;
}
