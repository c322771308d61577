// The cluster at a glance: models of devices and how much of each is in use, and the nodes.
import { html, useMemo } from "../html.js";
import { Bar, Legend } from "../parts/bars.js";
import { STATES } from "../parts/colours.js";
import { FilterBox, matches } from "../parts/filter.js";
import { count, percent } from "../parts/format.js";
import { ViewHead } from "../parts/status.js";
import { Table } from "../parts/table.js";
import { useParam } from "../router.js";
import { useView } from "../stream.js";

const total = (states) => Object.values(states).reduce((sum, each) => sum + each, 0);
const parts = (states) => Object.entries(STATES).map(([name, { colour, title }]) => ({ value: states[name] || 0, colour, title }));
const told = (states) => parts(states).filter((part) => part.value).map((part) => `${part.value} ${part.title}`).join(", ");

const COLUMNS = [
  { name: "name", title: "Node", value: (row) => row.key },
  { name: "model", title: "Devices", value: (row) => row.models.join(", ") },
  { name: "used", title: "In use", number: true, value: (row) => total(row.states) - (row.states.free || 0) },
  { name: "bar", title: "States", cell: (row) => html`<${Bar} parts=${parts(row.states)} whole=${total(row.states)} label=${told(row.states)} />` },
];

function Cluster() {
  const { data, state, problem } = useView("cluster");
  const [filter] = useParam("q");
  const rows = useMemo(() => Object.entries(data?.nodes || {}).map(([key, node]) => ({ key, ...node }))
    .filter((row) => matches(filter, `${row.key} ${row.models.join(" ")}`)), [data, filter]);
  return html`<${ViewHead} title="Cluster" state=${state} problem=${problem}><${FilterBox} /><//>
    <div class="cards">${Object.entries(data?.models || {}).map(([name, states]) => html`<section class="card" key=${name}>
      <h2>${name}</h2><div class="figure">${percent(total(states) - (states.free || 0), total(states))}</div>
      <${Bar} parts=${parts(states)} whole=${total(states)} label=${told(states)} width=${200} />
      <p class="soft">${count(total(states), "device")}: ${told(states)}</p></section>`)}</div>
    <${Legend} entries=${Object.values(STATES)} />
    ${data && html`<${Table} caption="Nodes" columns=${COLUMNS} rows=${rows} empty="No node has devices." />`}`;
}

export const view = { name: "cluster", title: "Cluster", component: Cluster };
