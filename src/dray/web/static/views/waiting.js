// Everything that waits, with its reason; on click why, what would help, and when it may start.
import { html, useMemo } from "../html.js";
import { Answer, useAnswer } from "../parts/answer.js";
import { Actions } from "../parts/actions.js";
import { Details, facts } from "../parts/details.js";
import { own } from "../parts/own.js";
import { Choice, FilterBox, matches } from "../parts/filter.js";
import { age, count, figure, moment, sentence } from "../parts/format.js";
import { ViewHead } from "../parts/status.js";
import { Table } from "../parts/table.js";
import { Trees } from "../parts/tree.js";
import { link, navigate, useParam } from "../router.js";
import { useView } from "../stream.js";

const STATES = {
  waiting: "No place yet", gated: "Held by a gate", new: "Not tried yet", starting: "Starting",
};

// The first sentence is the reason, what follows is about the nearest node.
function Reason({ text }) {
  const end = text.indexOf(". ");
  const [first, rest] = end < 0 ? [text, ""] : [text.slice(0, end + 1), text.slice(end + 2)];
  return html`<span class="reason">${first} ${rest && html`<span class="soft">${rest}</span>`}</span>`;
}

const perPod = (row) => (row.kind === "pod" ? "" : " each");

const COLUMNS = [
  { name: "name", title: "What", value: (row) => `${row.namespace}/${row.name}`, cell: (row) => html`
    <span class="waiting-name">${row.name}</span>
    <span class="soft waiting-place">${row.kind === "pod" ? "" : `${row.kind} of ${count(row.pods, "pod")}, ${row.waiting} waiting, `}in ${row.namespace}</span>` },
  { name: "age", title: "For", value: (row) => -Date.parse(row.since), cell: (row) => age(row.since) },
  { name: "wants", title: "Wants", value: (row) => (row.wants || []).join(", "),
    cell: (row) => (row.wants || []).map((want) => html`<span class="want" key=${want}>${want}${perPod(row)}</span>`) },
  { name: "reason", title: "Why", value: (row) => row.reason, cell: (row) => html`
    <span class=${`chip chip-${row.state}`}>${STATES[row.state]}</span> <${Reason} text=${row.reason} />` },
];

function Start({ answer }) {
  const waiting = answer.pods.filter((pod) => !pod.node);
  const placed = waiting.find((pod) => pod.queue);
  const place = placed ? html`<p>Place ${placed.position} in queue ${placed.queue}.</p>` : "";
  if (!waiting.length) return html`<p>Now: it fits on ${[...new Set(answer.pods.map((pod) => pod.node))].join(", ")}. Its scheduler should place it soon.</p>`;
  const starts = (name) => waiting.map((pod) => pod[name]).filter(Boolean).sort().at(-1);
  const [earliest, latest] = [starts("earliest"), starts("latest")];
  if (!earliest) return html`<p>Unknown. What it waits for has no time limit.</p>${place}`;
  if (earliest === latest) return html`<p>By <b>${moment(latest)}</b>, when pods that run reach their time limit.</p>${place}`;
  return html`<p>From <b>${moment(earliest)}</b>${latest ? html` to <b>${moment(latest)}</b>` : ", by how long such pods ran before; the latest is unknown"}.</p>${place}`;
}

function Help({ answer }) {
  if (answer.verdict === "Fits") return "";
  if (!answer.suggestions.length) {
    const rest = answer.exhausted ? "" : " There are more that there was no time for.";
    return html`<p>${answer.tried ? `None of the ${count(answer.tried, "change")} that were tried helps alone.${rest}` : "No single change is known that helps."}</p>`;
  }
  return html`<p class="soft">Each of these helps alone:</p><ul class="helps">${answer.suggestions.map((each) => html`<li key=${each.text}>${each.text}
    ${each.evicts.length > 0 && html`<span class="soft"> (stops ${each.evicts.join(", ")})</span>`}</li>`)}</ul>`;
}

function Open({ name, row, onClose }) {
  const why = useAnswer("waiting", "explain", row ? { name } : null);
  const help = useAnswer("waiting", "help", row && row.state !== "starting" ? { name } : null);
  const title = row ? row.name : name.split("/").at(-1);
  // One reason is enough for why there is no answer.
  const once = (found) => (found.problem && found.problem === why.problem ? { ...found, problem: "", busy: false } : found);
  if (!row) {
    return html`<${Details} title=${title} onClose=${onClose}><p>It does not wait any more: it runs, has ended, or was deleted.</p></>`;
  }
  return html`<${Details} title=${title} onClose=${onClose}>
    ${facts([["Namespace", row.namespace], ["Queue", row.queue], ["Wants", (row.wants || []).map((want) => want + perPod(row)).join(", ")],
      ["Waits since", moment(row.since)], ["Pods", row.kind === "pod" ? "" : `${row.waiting} of ${row.pods} wait`]])}
    ${row.kind === "pod" && html`<${Actions} target="pod" namespace=${row.namespace} name=${row.name} />`}
    <h3>Why</h3>
    <${Answer} found=${why} busy="Asking every node…">${(answer) => html`
      <p>${sentence([answer.outcome, answer.conclusion].filter(Boolean).join(": "))}</p>
      ${answer.remedy && html`<p class="remedy">${answer.remedy}</p>`}
      <${Trees} trees=${answer.trees} open=${1} />`}<//>
    ${row.state !== "starting" && html`
      <h3>When it may start</h3>
      <${Answer} found=${once(help)} busy="Playing what happens next…">${(answer) => html`<${Start} answer=${answer} />`}<//>
      <h3>What would help</h3>
      <${Answer} found=${once(help)} busy="Trying changes…">${(answer) => html`<${Help} answer=${answer} />
        ${answer.notes.map((each) => html`<p class="soft" key=${each}>${each}</p>`)}`}<//>`}
    <button type="button" disabled=${why.busy || help.busy} onClick=${() => { why.again(); help.again(); }}>Ask again</button>
  <//>`;
}

function emptyText(data, filter, state) {
  if (filter || state !== "all") return "Nothing that waits matches. Clear the filter to see all.";
  if (data.running) return `Nothing waits. ${count(data.running, "pod")} ${data.running === 1 ? "runs" : "run"}.`;
  if (data.partial) return "Nothing waits. You may list no pods, or there are none in your namespaces.";
  return html`Nothing waits. There are no pods yet: submit one in <a href=${link("try")}>Try</a>.`;
}

function Waiting({ route }) {
  const { data, state, problem } = useView("waiting");
  const [filter] = useParam("q");
  const [shown] = useParam("state", "all");
  const rows = useMemo(() => Object.entries(data?.waiting || {}).map(([key, row]) => ({ key, ...row }))
    .filter((row) => (shown === "all" || row.state === shown)
      && matches(filter, `${row.namespace}/${row.name} ${row.queue || ""} ${(row.wants || []).join(" ")} ${row.reason}`)), [data, filter, shown]);
  const open = route.parts.join("/");
  const params = Object.fromEntries(route.params);
  const show = (key) => navigate(link("waiting", key ? key.split("/") : [], params));
  const total = Object.keys(data?.waiting || {}).length + (data?.left_off || 0);
  return html`<${ViewHead} title="Waiting" state=${state} problem=${problem}>
      <${Choice} label="Show" param="state" options=${[["all", "All"], ...Object.entries(STATES)]} /><${FilterBox} /><//>
    ${data && total > 0 && html`<p class="soft" role="status">
      ${figure(total)} ${total === 1 ? "waits" : "wait"}, ${count(data.running, "pod")} ${data.running === 1 ? "runs" : "run"}.</p>`}
    ${data && html`<div class=${open ? "split open" : "split"}>
      <div class="waiting"><${Table} caption="What waits" columns=${COLUMNS} rows=${rows} current=${open}
        onOpen=${(row) => show(row.key)} empty=${emptyText(data, filter, shown)} /></div>
      ${open && html`<${Open} key=${open} name=${open} row=${own(data.waiting, open)} onClose=${() => show("")} />`}</div>`}`;
}

export const view = { name: "waiting", title: "Waiting", component: Waiting };
