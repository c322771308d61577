// The panel of one device: what the driver publishes, who holds it, and its taints.
import { html } from "../html.js";
import { Actions } from "../parts/actions.js";
import { Bar } from "../parts/bars.js";
import { STATES } from "../parts/colours.js";
import { Details, facts } from "../parts/details.js";
import { own } from "../parts/own.js";
import { age } from "../parts/format.js";
import { State } from "../parts/state.js";
import { link } from "../router.js";

const gigabytes = (bytes) => (bytes === undefined ? "" : `${(bytes / 2 ** 30).toFixed(1)} GiB`);

const Holder = ({ holder }) => html`<li><a href=${link("devices", ["claims"], { open: holder.claim })}>${holder.text}</a>
  ${holder.pods.length ? html`<span class="soft"> by ${holder.pods.join(", ")}</span>` : ""}</li>`;

function Attributes({ device, onSelect }) {
  const names = Object.keys(device.attributes).sort();
  if (!names.length) return null;
  return html`<h3>Attributes</h3><dl class="facts wide">${names.map((name) => html`<div key=${name}><dt title=${name}>${name.replace("resource.kubernetes.io/", "")}</dt>
    <dd><bdi>${device.attributes[name]}</bdi> ${own(device.conditions, name) && html`<button type="button" class="quiet add"
      aria-label=${`Add ${name} to the selector`} onClick=${() => onSelect(device.conditions[name])}>+ selector</button>`}</dd></div>`)}</dl>`;
}

export function DeviceDetails({ device, name, onClose, onSelect }) {
  const use = device.use || {};
  return html`<${Details} title=${device.name} onClose=${onClose}>
    ${facts([
      ["State", html`<${State} name=${device.state} />`],
      ["Model", device.model],
      ["Node", device.node],
      ["Pool", device.pool === device.node ? "" : device.pool],
      ["Driver", device.driver],
      ["Taints", device.taints.join(", ")],
      ["Busy", use.percent === undefined ? "" : `${use.percent} %`],
      ["Memory used", gigabytes(use.memoryUsedBytes)],
      ["Idle for", use.idleSince ? age(use.idleSince) : ""],
      ["Reported", use.observedAt ? `${age(use.observedAt)} ago` : ""],
    ])}
    <${Actions} target="device" name=${name} version=${JSON.stringify(device.rules)} />
    ${device.node && html`<${Actions} target="node" name=${device.node} />`}
    ${device.holders.length > 0 && html`<h3>Held by</h3><ul class="plain">${device.holders.map((holder) => html`<${Holder} key=${holder.claim} holder=${holder} />`)}</ul>`}
    ${Object.entries(device.shares).map(([each, share]) => html`<p key=${each}>${share.used} of ${share.total} ${each}
      <${Bar} parts=${[{ value: share.percent, colour: STATES.shared.colour, title: each }]} whole=${100} label=${`${share.percent} % of ${each} is used`} /></p>`)}
    ${Object.keys(device.capacity).length > 0 && html`<h3>Capacity</h3>${facts(Object.entries(device.capacity))}`}
    <${Attributes} device=${device} onSelect=${onSelect} /><//>`;
}
