// The tree of queues: quota, use, share and loans as bars; who is next, and why not yet.
import { html, useMemo } from "../html.js";
import { useAnswer, useFresh } from "../parts/answer.js";
import { Bar, Legend } from "../parts/bars.js";
import { CATEGORIES } from "../parts/colours.js";
import { Choice, FilterBox, matches } from "../parts/filter.js";
import { count, figure } from "../parts/format.js";
import { ViewHead } from "../parts/status.js";
import { link, navigate, useParam } from "../router.js";
import { useView } from "../stream.js";
import { Open } from "./queues_open.js";

const USED = { colour: CATEGORIES[0], title: "used of its quota" };
const BORROWED = { colour: CATEGORIES[1], title: "borrowed from others" };
const LENT = { colour: CATEGORIES[3], title: "lent to others" };

// In words, for everybody: "10 of 8 used, 2 borrowed, 4 left".
function amountsText({ quota, borrowed, lent, borrowable, share, text }) {
  const parts = [quota === undefined ? `${text.used} used, no quota` : `${text.used} of ${text.quota} used`];
  if (borrowed) parts.push(`${text.borrowed} borrowed`);
  if (lent) parts.push(`${text.lent} lent`);
  if (text.free !== undefined) parts.push(`${text.free} left${borrowable ? ` and ${text.borrowable} to borrow` : ""}`);
  if (share !== undefined) parts.push(`fair share ${text.share}`);
  return parts.join(", ");
}

function Amounts({ amounts }) {
  const { used, quota, limit, borrowed, lent } = amounts;
  const whole = Math.max(quota ?? used, limit ?? 0, used + (lent || 0)) || 1;
  const words = amountsText(amounts);
  const parts = [{ ...USED, value: used - borrowed }, { ...BORROWED, value: borrowed }, { ...LENT, value: lent || 0 }];
  return html`<div class="amounts"><span class="amounts-name">${amounts.resource}${amounts.flavor && html` <span class="soft">${amounts.flavor}</span>`}</span>
    <${Bar} parts=${parts} whole=${whole} label=${`${amounts.resource}: ${words}`} width=${220} height=${14} />
    <span class="amounts-text">${words}</span></div>`;
}

function Queue({ queue, resource, open, params }) {
  const parts = [queue.kind, queue.name];
  const shown = queue.resources.filter((each) => !resource || each.resource === resource);
  return html`<li><div class=${open === parts.join("/") ? "queue current" : "queue"}>
      <div class="queue-head"><a href=${link("queues", parts, params)} aria-current=${open === parts.join("/") ? "true" : undefined}><b>${queue.name}</b></a>
        <span class="soft">${queue.kind === "Queue" ? "KAI queue" : queue.kind}</span>
        <span class="queue-counts">${count(queue.running, "pod")} ${queue.running === 1 ? "runs" : "run"}
          ${queue.waiting > 0 && html`, <b>${figure(queue.waiting)} ${queue.waiting === 1 ? "waits" : "wait"}</b>`}</span></div>
      ${shown.map((each) => html`<${Amounts} key=${`${each.resource} ${each.flavor}`} amounts=${each} />`)}
      ${queue.next && html`<p class="next"><b>Next: ${queue.next.title}.</b> Why not yet: ${queue.next.why}</p>`}
    </div>
    ${queue.children.length > 0 && html`<ul>${queue.children.map((each) => html`<${Queue} key=${each.name} queue=${each} resource=${resource} open=${open} params=${params} />`)}</ul>`}</li>`;
}

// Queues that match, and those above them.
function kept(queues, filter) {
  return queues.flatMap((queue) => {
    const children = kept(queue.children, filter);
    const own = matches(filter, `${queue.name} ${queue.kind} ${queue.next?.title || ""}`);
    return own ? [queue] : children.length ? [{ ...queue, children }] : [];
  });
}

const every = (queues) => queues.flatMap((queue) => [queue, ...every(queue.children)]);

function Empty({ hidden }) {
  if (hidden.length) {
    return html`<section class="card"><h2>You see no queues</h2>
      <p>There may be some: you may not list ${hidden.join(", ")} in all namespaces.</p></section>`;
  }
  return html`<section class="card"><h2>This cluster has no queues</h2>
    <p>A queue gives a team a quota of devices, and lets others borrow what the team does not use. dray knows ClusterQueues of Kueue and queues of KAI.</p>
    <p><a href=${link("try", [], { example: "5-queue-with-quota" })}>Try a queue with a quota</a></p></section>`;
}

function Queues({ route }) {
  const { data, state, problem } = useView("queues");
  const [filter] = useParam("q");
  const [resource] = useParam("resource");
  const [kind = "", ...names] = route.parts;
  const name = names.join("/");
  const none = data?.queues === false;
  const found = useAnswer("queues", "tree", data?.queues ? { kind, name } : null, { keep: true });
  useFresh(found.again, data?.mark);
  const queues = found.answer?.queues;
  const shown = useMemo(() => kept(queues || [], filter), [queues, filter]);
  const resources = [...new Set(every(queues || []).flatMap((queue) => queue.resources.map((each) => each.resource)))];
  const open = kind ? `${kind}/${name}` : "";
  const params = Object.fromEntries(route.params);
  const chosen = every(queues || []).find((queue) => `${queue.kind}/${queue.name}` === open);
  return html`<${ViewHead} title="Queues" state=${state} problem=${problem}>
      ${resources.length > 1 && html`<${Choice} label="Resource" param="resource" options=${[["", "All"], ...resources.map((each) => [each, each])]} />`}
      <${FilterBox} /><//>
    ${found.problem && html`<p role="alert" class="failure">${found.problem}</p>`}
    ${!queues && !none && !found.problem && html`<p class="soft working" role="status">Working out who has what…</p>`}
    ${(none || queues?.length === 0) && html`<${Empty} hidden=${data?.hidden || []} />`}
    ${!none && queues?.length > 0 && html`
      <${Legend} entries=${[USED, BORROWED, LENT, { colour: "var(--line)", title: "free" }]} />
      <div class=${open ? "split open" : "split"}>
        ${shown.length ? html`<ul class="queues" aria-label="Queues">${shown.map((each) => html`<${Queue} key=${each.name} queue=${each} resource=${resource} open=${open} params=${params} />`)}</ul>`
          : html`<p class="empty">No queue matches. Clear the filter to see all.</p>`}
        ${open && html`<${Open} key=${open} kind=${kind} name=${name} queue=${chosen} answer=${found.answer.open} busy=${found.busy}
          words=${amountsText} onClose=${() => navigate(link("queues", [], params))} />`}
      </div>`}
    ${(found.answer?.notes || []).map((each) => html`<p class="soft" key=${each}>${each}</p>`)}`;
}

export const view = { name: "queues", title: "Queues", component: Queues };
