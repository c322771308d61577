// One queue: its resources and loans, what waits in it in order and why, and what runs.
import { html } from "../html.js";
import { Actions } from "../parts/actions.js";
import { Details } from "../parts/details.js";
import { age, count } from "../parts/format.js";
import { link } from "../router.js";

const RECLAIMS = {
  Never: "It gets lent quota back when the pods of borrowers end.",
  LowerPriority: "Its pods stop borrowers of lower priority to get lent quota back.",
  Any: "Its pods stop borrowers to get lent quota back.",
};

function Loans({ amounts }) {
  const say = (loans, words) => loans.map((each) => html`<li key=${words + each.queue}>${each.queue} ${words} ${each.amount} ${amounts.resource}</li>`);
  return html`${say(amounts.borrowers, "has borrowed")}${say(amounts.lenders, "lends")}`;
}

const runningText = ({ pods, uses, since, evicted }) => [
  ...(pods > 1 ? [count(pods, "pod")] : []), ...uses, `for ${age(since)}`, ...(evicted ? ["being stopped"] : []),
].join(", ");

export function Open({ kind, name, queue, answer, busy, words, onClose }) {
  if (!queue) return html`<${Details} title=${name} onClose=${onClose}><p>${busy ? "Loading…" : `There is no ${kind} ${name}.`}</p></>`;
  const lends = queue.resources.some((each) => each.borrowers.length || each.lenders.length);
  return html`<${Details} title=${name} onClose=${onClose}>
    <ul class="plain">${queue.resources.map((each) => html`<li key=${each.resource + each.flavor}><b>${each.resource}</b>
      ${each.flavor && html` <span class="soft">${each.flavor}</span>`}: ${words(each)}${each.limit !== undefined && `, limit ${each.text.limit}`}</li>`)}</ul>
    <${Actions} target=${kind} name=${name} version=${JSON.stringify(queue.resources.map((each) => each.text))} />
    ${queue.share && html`<p class="soft">Weighted share of what can be borrowed: ${queue.share}. The lowest goes first.</p>`}
    ${lends && html`<h3>Loans</h3><ul class="helps">${queue.resources.map((each) => html`<${Loans} key=${each.resource + each.flavor} amounts=${each} />`)}</ul>
      ${answer?.reclaims && queue.resources.some((each) => each.borrowers.length) && html`<p class="soft">${RECLAIMS[answer.reclaims]}</p>`}`}
    ${!answer && html`<p class="soft working" role="status">${busy ? "Looking who waits…" : ""}</p>`}
    ${answer && html`
      <h3>Waiting, in order</h3>
      ${answer.waiting.length ? html`<ol class="waits">${answer.waiting.map((each, place) => html`<li key=${each.title}>
          <a href=${each.pods === 1 ? link("waiting", ["pod", each.namespace, each.pod]) : link("waiting", [], { q: each.title.split(" ")[1] })}>${each.title}</a>
          ${each.why !== answer.waiting[place - 1]?.why && html`<span class="soft why">${each.why}</span>`}</li>`)}</ol>` : html`<p class="soft">Nothing waits here.</p>`}
      ${answer.more_waiting && html`<p class="soft">and more</p>`}
      <h3>Running</h3>
      ${answer.running.length ? html`<ul class="plain">${answer.running.map((each) => html`<li key=${each.title}>${each.title}
          <span class="soft"> ${runningText(each)}</span></li>`)}</ul>` : html`<p class="soft">Nothing runs here.</p>`}
      ${answer.running_left_off > 0 && html`<p class="soft">and ${answer.running_left_off} more</p>`}`}
  <//>`;
}
