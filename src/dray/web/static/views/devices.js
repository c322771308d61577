// Devices and claims: search, selectors and what they match, and the timeline of a claim.
import { html, useMemo, useState } from "../html.js";
import { Bar } from "../parts/bars.js";
import { STATES } from "../parts/colours.js";
import { Choice, FilterBox } from "../parts/filter.js";
import { countShown, figure } from "../parts/format.js";
import { useLater } from "../parts/later.js";
import { State, statesParts, statesText, statesTotal } from "../parts/state.js";
import { ViewHead } from "../parts/status.js";
import { Table } from "../parts/table.js";
import { link, useParam } from "../router.js";
import { useView } from "../stream.js";
import { Claims, Tabs } from "./devices_claims.js";
import { DeviceDetails } from "./devices_details.js";
import { Selector, useMatch } from "./devices_selector.js";

const claimLink = (name) => html`<a href=${link("devices", ["claims"], { open: name })}>${name}</a>`;
const listed = (values, show = (value) => value) => values.map((value, place) => html`${place ? ", " : ""}${show(value)}`);

// A device that a claim holds may be tainted as well.
const stateCell = (row) => html`<${State} name=${row.state} />
  ${row.taints.length > 0 && row.state !== "tainted" && html` <span class="soft">tainted</span>`}`;

const COLUMNS = [
  { name: "name", title: "Device", value: (row) => row.name },
  { name: "node", title: "Node", whole: true, value: (row) => row.node || row.pool },
  { name: "model", title: "Model", whole: true, value: (row) => row.model },
  { name: "state", title: "State", value: (row) => row.state, cell: stateCell },
  { name: "claims", title: "Claim", value: (row) => row.claims.join(), cell: (row) => listed(row.claims, claimLink) },
  { name: "pods", title: "Pods", value: (row) => row.pods.join(", ") },
  { name: "busy", title: "Busy", number: true, value: (row) => row.use?.percent ?? -1, cell: (row) => (row.use?.percent === undefined ? "" : `${row.use.percent} %`) },
];

const KINDS = ["gpu", "tpu", "other", "part", "nic", "cpu"];
const MOST_MODELS = 6;
const NoDevices = () => html`No devices yet: drivers publish them in ResourceSlices. If you expect some, check that drivers run on
  the nodes and that you may list ResourceSlices. <code>dray up --fleet dgx-h100=3</code> simulates three machines.`;

const freeText = (states) => `${figure(states.free || 0)} free${states.unknown > 0 ? `, ${figure(states.unknown)} unknown` : ""}`
  + ` of ${figure(statesTotal(states))}`;

function Models({ models, kinds, chosen, onChoose }) {
  const [all, setAll] = useState(false);
  const rank = (name) => KINDS.indexOf(kinds[name]);
  const names = Object.keys(models).sort((first, second) => rank(first) - rank(second) || statesTotal(models[second]) - statesTotal(models[first]));
  const shown = all || names.length <= MOST_MODELS + 1 ? names : names.filter((name, place) => place < MOST_MODELS || name === chosen);
  return html`<div class="models" role="group" aria-label="Models">${shown.map((name) => html`<button key=${name} type="button"
      class="model" aria-pressed=${String(name === chosen)} onClick=${() => onChoose(name === chosen ? "" : name)}>
    <b>${name}</b><span class="soft">${freeText(models[name])}</span>
    <${Bar} parts=${statesParts(models[name])} whole=${statesTotal(models[name])} label=${statesText(models[name])} width=${180} height=${8} />
  </button>`)}
    ${names.length > MOST_MODELS + 1 && html`<button type="button" class="more-models" aria-expanded=${String(all)} onClick=${() => setAll(!all)}>
      ${all ? "Fewer models" : `${names.length - shown.length} more models`}</button>`}</div>`;
}

function Devices() {
  const [q] = useParam("q");
  const [state] = useParam("state");
  const [model, setModel] = useParam("model");
  const [open, setOpen] = useParam("open");
  const [chosen] = useParam("class");
  const [selector, setSelector] = useParam("selector");
  const words = useLater(q);
  const { data, state: live, problem } = useView("devices", { q: words, state, model, open });
  const match = useMatch({ class: chosen, selector: selector.trim(), q: words, state, model }, data);
  const rows = useMemo(() => {
    const known = data?.devices || {};
    const asked = match.answer && !match.answer.problem.text ? match.answer.devices : null;
    // The stream has the newest state of a device, the answer what it was when it was asked for.
    return Object.keys(asked || known).map((key) => ({ key, ...(known[key] || asked[key]) }));
  }, [data, match.answer]);
  const classes = [["", "any class"], ...Object.keys(data?.classes || {}).sort().map((name) => [name, name])];
  const states = [["", "any state"], ...Object.keys(STATES).map((name) => [name, name])];
  return html`<${ViewHead} title="Devices" state=${live} problem=${problem}>
      <${FilterBox} placeholder="Name, node, numaNode=1 …" /><${Choice} label="State" param="state" options=${states} /><//>
    <${Tabs} current="devices" />
    ${data && !data.seesAllClaims && html`<p class="notice">You may not list all claims: devices that you see no claim of are shown as unknown.</p>`}
    ${data && html`<${Models} models=${data.models} kinds=${data.kinds} chosen=${model} onChoose=${setModel} />
      <${Selector} match=${match} classes=${classes} selector=${selector} onSelector=${setSelector} />
      <div class=${data.open ? "split open" : "split"}>
        <div><p class="soft" role="status">${countShown(rows.length, match.answer ? rows.length : data.found, "device")}</p>
        <${Table} caption="Devices" columns=${COLUMNS} rows=${rows} current=${open} onOpen=${(row) => setOpen(row.key)}
          empty=${Object.keys(data.models).length ? "No device is found by these filters." : html`<${NoDevices} />`} most=${300} /></div>
        ${data.open && html`<${DeviceDetails} key=${open} device=${data.open} name=${open} onClose=${() => setOpen("")}
          onSelect=${(condition) => setSelector(selector ? `${selector} && ${condition}` : condition)} />`}
      </div>`}`;
}

const Either = ({ route }) => (route.parts[0] === "claims" ? html`<${Claims} />` : html`<${Devices} />`);

export const view = { name: "devices", title: "Devices", component: Either };
