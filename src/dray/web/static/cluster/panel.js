// Details of a node or device: what it is, where it sits, who holds it since when, and how busy it is.
import { html } from "../html.js";
import { Actions } from "../parts/actions.js";
import { Details, facts } from "../parts/details.js";
import { age, count } from "../parts/format.js";
import { link } from "../router.js";
import { NODE_STATES } from "./store.js";

const memory = (mebibytes) => (mebibytes ? `${Math.round(mebibytes / 102.4) / 10} GiB` : "");
const busyText = (busy) => (busy < 0 ? "" : `${busy}\u00a0%`);
const STATE_TEXTS = { unknown: "free or held by others", blocked: "blocked: a part of it is held" };
const stateText = (store, device) => STATE_TEXTS[store.state(device)] || store.state(device);

export function holderText(store, device) {
  return store.holders(device).map((claim) => `${claim.namespace}/${claim.pods[0] || claim.name}${claim.share < 100 ? ` (${claim.share} %)` : ""}`).join(", ");
}

function Holder({ claim }) {
  return facts([
    ["Claim", html`<a href=${link("devices", ["claims"], { open: `${claim.namespace}/${claim.name}` })}>${claim.namespace}/${claim.name}</a>`], ["Pods", claim.pods.join(", ")], ["Queue", claim.queue],
    ["Since", claim.since && `${claim.since.replace("T", " ").replace("Z", " UTC")} (${age(claim.since)})`],
    ["Share", claim.share < 100 ? `${claim.share} %` : ""],
  ]);
}

function Device({ store, device }) {
  const shape = store.shape(device);
  const holders = store.holders(device);
  const parent = shape.parent >= 0 ? store.shape(store.first[store.nodeOf[device]] + shape.parent).name : "";
  return html`${facts([
    ["State", stateText(store, device)], ["Model", shape.model], ["Driver", shape.driver], ["Memory", memory(shape.memory)],
    ["NUMA node", shape.numa >= 0 ? String(shape.numa) : ""], ["PCIe root", shape.root], ["Partition of", parent], ["Link", shape.link],
    ["Utilization", busyText(store.busy[device])],
  ])}
  ${holders.length ? html`<h3>${holders.length === 1 ? "Holder" : count(holders.length, "holder")}</h3>` : ""}
  ${holders.map((claim) => html`<${Holder} key=${claim.name} claim=${claim} />`)}`;
}

// Most drivers have a pool for each node, with its name. Where they do not, the list has the device.
const deviceLink = (shape, node) => link("devices", [], { q: `${shape.name} ${node}`, open: `${shape.driver}/${node}/${shape.name}` });

export function Panel({ store, node, device, onClose, onDevice }) {
  const name = store.names[node];
  if (device >= 0) {
    return html`<${Details} key=${`${name}/${device}`} title=${`${name} · ${store.shape(device).name}`} onClose=${onClose}>
      <p><a href=${link("cluster", [], { ...Object.fromEntries(new URLSearchParams(location.search)), device: "" })}>All devices of ${name}</a>
        <br /><a href=${deviceLink(store.shape(device), name)}>Attributes and actions</a></p>
      <${Device} store=${store} device=${device} /><//>`;
  }
  const devices = store.devices(node).filter((each) => store.isShown(each));
  const possible = store.devices(node).length - devices.length;
  return html`<${Details} key=${name} title=${name} onClose=${onClose}>
    ${facts([["Rack", store.racks[store.nodeRack[node]]], ["State", NODE_STATES[store.nodeState[node]]],
      ["Partitions", possible ? `${possible} more are possible` : ""]])}
    <${Actions} target="node" name=${name} version=${store.nodeState[node]} />
    <ul class="device-list">${devices.map((each) => html`<li key=${each}>
      <button type="button" class="quiet" onClick=${() => onDevice(each)}>${store.shape(each).name}</button>
      <span class="soft">${holderText(store, each) || stateText(store, each)}${store.busy[each] >= 0 ? `, ${busyText(store.busy[each])}\u00a0busy` : ""}</span>
    </li>`)}</ul><//>`;
}
