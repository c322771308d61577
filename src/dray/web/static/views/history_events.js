// Events on the time axis of the charts, and as a list.
import { html, useMemo } from "../html.js";
import { clock, placeOf, ticks, useWidth } from "../parts/chart.js";
import { Choice, FilterBox, matches } from "../parts/filter.js";
import { age } from "../parts/format.js";
import { Table } from "../parts/table.js";
import { useParam } from "../router.js";

const seconds = (event) => Date.parse(event.time) / 1000;
const COLUMNS = [
  { name: "time", title: "Age", value: (row) => -Date.parse(row.time), cell: (row) => html`<time datetime=${row.time} title=${row.time}>${age(row.time)}</time>` },
  { name: "type", title: "Type", value: (row) => row.type },
  { name: "reason", title: "Reason", value: (row) => row.reason },
  { name: "about", title: "Object", value: (row) => row.about },
  { name: "message", title: "Message", value: (row) => row.message },
];

// Warnings are triangles, others are bars: shape and place say what the colour says.
export function EventAxis({ events, span, cursor }) {
  const [element, width] = useWidth();
  const shown = Object.entries(events).filter(([, event]) => seconds(event) >= span.from && seconds(event) <= span.to + 60);
  const warnings = shown.filter(([, event]) => event.type === "Warning").length;
  return html`<section class="chart" ref=${element}><h2>Events</h2><p class="soft">Warnings are triangles.</p>
    <svg role="img" aria-label=${`${shown.length} events, ${warnings} of them warnings; the list below has them`} width=${width} height="58" viewBox=${`0 0 ${width} 58`}>
      ${ticks(span).map((time) => html`<text key=${time} class="axis" x=${placeOf(time, span, width)} y="54" text-anchor="middle">${clock(time)}</text>`)}
      ${shown.map(([key, event]) => {
        const x = Math.min(placeOf(seconds(event), span, width), width - 6);
        return event.type === "Warning"
          ? html`<path key=${key} class="warning" d=${`M${x - 5} 20L${x + 5} 20L${x} 10Z`}><title>${event.reason}: ${event.about}</title></path>`
          : html`<rect key=${key} class="mark" x=${x - 1} y="24" width="2" height="12"><title>${event.reason}: ${event.about}</title></rect>`;
      })}
      ${cursor > 0 && html`<line class="cursor" x1=${placeOf(cursor, span, width)} x2=${placeOf(cursor, span, width)} y1="4" y2="40" />`}
    </svg></section>`;
}

export function EventList({ events, span, partial }) {
  const [q] = useParam("q");
  const [type] = useParam("type");
  const rows = useMemo(() => Object.entries(events).map(([key, event]) => ({ key, ...event }))
    .filter((row) => (!type || row.type === type) && seconds(row) >= span.from && matches(q, `${row.type} ${row.reason} ${row.about} ${row.message}`))
    .sort((first, second) => second.time.localeCompare(first.time)), [events, q, type, span.from]);
  return html`<div class="view-head section"><h2>Events</h2><div class="tools"><${FilterBox} />
      <${Choice} label="Type" param="type" options=${[["", "any"], ["Warning", "warnings"], ["Normal", "normal"]]} /></div></div>
    <${Table} caption="Events" columns=${COLUMNS} rows=${rows} most=${100}
      empty=${partial ? "No event is found in this time, in the namespaces whose events you may list." : "No event is found in this time."} />`;
}
