// The last hours: allocation, utilization, waiting and fragmentation on one time axis with events; idle devices.
import { html, useMemo, useState } from "../html.js";
import { clock, TimeChart } from "../parts/chart.js";
import { colourAt } from "../parts/colours.js";
import { Choice } from "../parts/filter.js";
import { age, count } from "../parts/format.js";
import { ViewHead } from "../parts/status.js";
import { Table } from "../parts/table.js";
import { link, useParam } from "../router.js";
import { useView } from "../stream.js";
import { EventAxis, EventList } from "./history_events.js";

const DASHES = ["", "6 3", "2 2", "8 3 2 3"];
const percent = (value) => `${Math.round(value)} %`;
const number = (value) => String(Math.round(value * 10) / 10);
const duration = (seconds) => (seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`);

const CHARTS = [
  { title: "Allocation", hint: "GPUs, TPUs and other devices that claims hold, whole or in part. Network and CPU devices are not in the total.", names: ["allocated"], most: 100, show: percent },
  { title: "Utilization", hint: "How busy the devices in use are on average, as their drivers report it.", names: ["busy"], most: 100, show: percent },
  { title: "Waiting", hint: "Pods without a node.", names: ["waiting"], show: number },
  { title: "Longest wait", hint: "How long the pod that came first has waited.", names: ["longest"], show: duration },
  { title: "Fragmentation", hint: "Free devices on nodes where other devices of their model are in use: no pod can get all devices of such a node.",
    names: ["fragmentation"], most: 100, show: percent },
];
const NAMES = { allocated: "all", busy: "average", waiting: "pods", longest: "longest wait", fragmentation: "of all free devices" };

const IDLE = [
  { name: "device", title: "Device", value: (row) => row.device, cell: (row) => html`<a href=${link("devices", [], { open: row.device })}>${row.device}</a>` },
  { name: "model", title: "Model", value: (row) => row.model },
  { name: "claim", title: "Claim", value: (row) => row.claim, cell: (row) => html`<a href=${link("devices", ["claims"], { open: row.claim })}>${row.claim}</a>` },
  { name: "since", title: "Idle for", number: true, value: (row) => row.since, cell: (row) => age(row.since) },
];

// The lines of a chart: its measures, and those of single models (allocated:H100) that were not zero all the time.
function linesOf(chart, points) {
  const isShown = (name) => chart.names.includes(name.split(":")[0]) && (!name.includes(":") || points.some(([, point]) => point[name] > 0));
  const names = [...new Set(points.flatMap(([, point]) => Object.keys(point)))].filter(isShown)
    .sort((first, second) => first.length - second.length || first.localeCompare(second));
  return names.map((name, place) => ({
    name: name.includes(":") ? name.slice(name.indexOf(":") + 1) : NAMES[name],
    colour: colourAt(place),
    dash: DASHES[Math.floor(place / 2) % DASHES.length] || undefined,
    points: points.filter(([, point]) => point[name] !== undefined).map(([time, point]) => [time, point[name]]),
  }));
}

function History() {
  const [hours] = useParam("hours", "1");
  const [cursor, setCursor] = useState(0);
  const { data, state, problem } = useView("history", { hours });
  const points = useMemo(() => Object.entries(data?.points || {}).map(([time, point]) => [Number(time), point])
    .sort((first, second) => first[0] - second[0]), [data]);
  const last = points.at(-1)?.[0] || Math.floor(Date.now() / 1000);
  const span = { from: Math.max(last - (data?.hours || 1) * 3600, Math.min(data?.since || last, last - 600)), to: last };
  const idle = useMemo(() => Object.entries(data?.idle || {}).map(([key, row]) => ({ key, ...row })), [data]);
  const charts = CHARTS.filter((chart) => data && !chart.names.some((name) => name in data.hidden));
  const hidden = [...new Set(Object.values(data?.hidden || {}).flat())];
  return html`<${ViewHead} title="History" state=${state} problem=${problem}>
      <${Choice} label="Last" param="hours" options=${[["1", "hour"], ["6", "6 hours"], ["24", "24 hours"]]} /><//>
    ${hidden.length > 0 && html`<p class="notice">Charts about the whole cluster are not shown, because you may not list ${hidden.join(", ")} in all namespaces.</p>`}
    ${data && !data.since && html`<p class="empty">No sample was taken yet; the first comes within seconds.</p>`}
    ${data?.since > 0 && html`
      <label class="time-cursor">Time <input type="range" min=${span.from} max=${span.to} step=${data.step} value=${cursor || span.to}
        aria-valuetext=${clock(cursor || span.to)} onInput=${(event) => setCursor(Number(event.target.value))} />
        <output>${cursor ? clock(cursor) : "now"}</output></label>
      <div class="charts">${charts.map((chart) => html`<${TimeChart} key=${chart.title} ...${chart} lines=${linesOf(chart, points)} span=${span}
        step=${data.step} cursor=${cursor} onCursor=${setCursor} />`)}
        <${EventAxis} events=${data.events} span=${span} cursor=${cursor} /></div>
      <p class="soft">Recorded since ${new Date(data.since * 1000).toLocaleString("en-GB")}, in the memory of the server:
        ${" "}${data.hours === 1 ? "an hour" : `${data.hours} hours`} in steps of ${data.step} s.</p>`}
    ${data && html`<h2 class="section">Idle devices</h2>
      <p class="soft">${idle.length ? `${count(idle.length, "device")} that a claim holds and nobody uses` : ""}</p>
      <${Table} caption="Idle devices" columns=${IDLE} rows=${idle} sortParam="idle" empty=${`No device that is in use is reported as idle${hidden.length ? ", as far as you may see" : ""}.`} />
      <${EventList} events=${data.events} span=${span} partial=${!data.seesAllEvents} />`}`;
}

export const view = { name: "history", title: "History", component: History };
