// Claims, and the timeline of one: times as objects tell them, and none where nobody wrote one down.
import { html, useMemo } from "../html.js";
import { Actions } from "../parts/actions.js";
import { Details, facts } from "../parts/details.js";
import { Choice, FilterBox } from "../parts/filter.js";
import { age, count, countShown } from "../parts/format.js";
import { useLater } from "../parts/later.js";
import { ViewHead } from "../parts/status.js";
import { Table } from "../parts/table.js";
import { link, useParam } from "../router.js";
import { useView } from "../stream.js";

export const Tabs = ({ current }) => html`<nav class="tabs" aria-label="Devices or claims">
  <a href=${link("devices")} aria-current=${current === "devices" ? "page" : undefined}>Devices</a>
  <a href=${link("devices", ["claims"])} aria-current=${current === "claims" ? "page" : undefined}>Claims</a></nav>`;

const STATES = ["", "waiting", "allocated", "in use", "deleting"];
const COLUMNS = [
  { name: "name", title: "Claim", value: (row) => row.key },
  { name: "state", title: "State", value: (row) => row.state },
  { name: "classes", title: "Class", value: (row) => row.classes.join(", ") },
  { name: "devices", title: "Devices", number: true, value: (row) => row.devices },
  { name: "pools", title: "Pool", whole: true, value: (row) => row.pools.join(", ") },
  { name: "users", title: "Reserved for", whole: true, value: (row) => row.users.join(", ") },
  { name: "age", title: "Age", number: true, value: (row) => row.created, cell: (row) => age(row.created) },
];

const clock = (time) => html`<time datetime=${time} title=${time}>${new Date(time).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" })}</time>`;

function Moment({ entry, before }) {
  if (entry.time) return html`${clock(entry.time)} <span class="soft">${before && entry.time !== before ? `${age(before, Date.parse(entry.time))} later` : ""}</span>`;
  if (entry.by) return html`<span class="soft">no later than</span> ${clock(entry.by)}`;
  return html`<span class="soft">${entry.done ? "time not recorded" : "not yet"}</span>`;
}

const Timeline = ({ entries }) => html`<ol class="timeline">${entries.map((entry, place) => html`<li key=${place} class=${entry.done ? "done" : ""}>
  <b>${entry.step}</b> <${Moment} entry=${entry} before=${entries[place - 1]?.time} />
  ${entry.note && html`<p class="soft">${entry.note}</p>`}</li>`)}</ol>`;

export function Claims() {
  const [q] = useParam("q");
  const [state] = useParam("state");
  const [open, setOpen] = useParam("open");
  const words = useLater(q);
  const { data, state: live, problem } = useView("devices", { show: "claims", q: words, state, open });
  const rows = useMemo(() => Object.entries(data?.claims || {}).map(([key, row]) => ({ key, ...row })), [data]);
  const claim = data?.open;
  return html`<${ViewHead} title="Claims" state=${live} problem=${problem}>
      <${FilterBox} placeholder="Claim, class, pod …" />
      <${Choice} label="State" param="state" options=${STATES.map((name) => [name, name || "any state"])} /><//>
    <${Tabs} current="claims" />
    ${data && html`<div class=${claim ? "split open" : "split"}>
      <div><p class="soft" role="status">${countShown(rows.length, data.found, "claim")}</p>
      <${Table} caption="Claims" columns=${COLUMNS} rows=${rows} current=${open} onOpen=${(row) => setOpen(row.key)}
        empty=${q || state ? "No claim is found by these filters." : html`No claims yet: submit a pod that asks for a device in <a href=${link("try")}>Try</a>.`} most=${300} /></div>
      ${claim && html`<${Details} key=${open} title=${open} onClose=${() => setOpen("")}>
        ${facts([["State", claim.state], ["Class", claim.classes.join(", ")], ["Reserved for", claim.users.join(", ")]])}
        <${Actions} target="claim" namespace=${open.split("/")[0]} name=${open.split("/")[1]} version=${claim.state} />
        ${claim.users.map((pod) => html`<${Actions} key=${pod} target="pod" namespace=${open.split("/")[0]} name=${pod} named=${true} />`)}
        <h3>Timeline</h3><${Timeline} entries=${claim.timeline} />
        ${claim.events.length > 0 && html`<h3>Events</h3><${Timeline} entries=${claim.events} />`}
        ${claim.results.length > 0 && html`<h3>${count(claim.results.length, "device")}</h3><ul class="plain">${claim.results.map((name) => html`<li key=${name}>
          <a href=${link("devices", [], { open: name })}>${name}</a></li>`)}</ul>`}<//>`}
    </div>`}`;
}
