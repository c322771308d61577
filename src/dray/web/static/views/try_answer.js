// What is wrong with a manifest, and where its pods would go.
import { html } from "../html.js";
import { count, moment, sentence } from "../parts/format.js";

function goTo(line) {
  const input = document.getElementById("manifest");
  const lines = input.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  input.focus();
  input.setSelectionRange(start, start + (lines[line - 1] || "").length);
  input.scrollTop = (line - 4) * (input.scrollHeight / Math.max(lines.length, 1));
}

function Finding({ each }) {
  const what = [each.kind && `${each.kind} ${each.name}`.trim(), each.field, each.message].filter(Boolean).join(": ");
  return html`<li class=${`finding finding-${each.severity}`}>
    <button type="button" class="quiet" onClick=${() => goTo(each.line)} aria-label=${`Go to line ${each.line}`}>line ${each.line}</button>
    <span><b>${each.severity}</b> ${what}${each.hint && html` <span class="soft">${each.hint}</span>`}</span></li>`;
}

export function Findings({ found }) {
  const { answer, problem, busy } = found;
  if (problem) return html`<section class="card"><h2>Check</h2><p role="alert" class="failure">${problem}</p></section>`;
  if (!answer) return html`<section class="card"><h2>Check</h2><p class="soft working" role="status">${busy ? "Checking…" : ""}</p></section>`;
  const problems = answer.problems || [];
  return html`<section class="card"><h2>Check</h2>
    <p role="status">${answer.findings.length + problems.length ? answer.summary : html`<span class="good">✓</span> Nothing wrong in ${count(answer.objects, "object")}.`}</p>
    <ul class="findings">${answer.findings.map((each, place) => html`<${Finding} key=${place} each=${each} />`)}
      ${problems.map((each) => html`<li key=${each} class="finding finding-error"><span>${each}</span></li>`)}</ul></section>`;
}

const VERDICTS = {
  Fits: ["good", "✓", "It fits now."], FitsWithChange: ["warn", "●", "It would wait. A change helps."], DoesNotFit: ["bad", "✕", "It would wait."],
};

function start({ earliest, latest } = {}) {
  if (!earliest) return "unknown, because what it waits for has no time limit";
  return earliest === latest ? `by ${moment(latest)}` : `from ${moment(earliest)}${latest ? ` to ${moment(latest)}` : ""}`;
}

const MOST = 12;
const shortened = (names) => (names.length > MOST ? `${names.slice(0, MOST).join(", ")} and ${names.length - MOST} more` : names.join(", "));

function PlannedPod({ pod }) {
  return html`<li class="planned"><b>${pod.name}</b> ${pod.fits
    ? html`on <b>${pod.node}</b>${pod.devices.length > 0 && html`<span class="soft"> with ${shortened(pod.devices.map((each) => each.device))}</span>`}`
    : html`waits: ${pod.reason}${pod.queue && html`<span class="soft"> Place ${pod.queue.position} in queue ${pod.queue.name}.</span>`}
      <span class="soft planned-start">May start: ${start(pod.start)}.</span>`}</li>`;
}

export function Plan({ found: { answer, busy } }) {
  if (answer?.unplanned) return html`<section class="card"><h2>Plan</h2><p class="failure">${sentence(answer.unplanned)}.</p></section>`;
  const plan = answer?.plan;
  if (!plan) return busy && !answer ? html`<section class="card"><h2>Plan</h2><p class="soft working" role="status">Playing it on the cluster as it is now…</p></section>` : "";
  const [look, sign, words] = plan.pods.length ? VERDICTS[plan.verdict] : ["good", "✓", "There is no pod to place."];
  const fitting = plan.pods.filter((pod) => pod.fits).length;
  return html`<section class="card"><h2>Plan</h2>
    <p class=${`verdict ${look}`} role="status"><span aria-hidden="true">${sign}</span> ${words} ${plan.pods.length > 1 ? `${fitting} of ${count(plan.pods.length, "pod")} fit.` : ""}</p>
    <ul class="plain">${plan.pods.slice(0, 40).map((pod) => html`<${PlannedPod} key=${`${pod.namespace}/${pod.name}`} pod=${pod} />`)}</ul>
    ${plan.pods.length > 40 && html`<p class="soft">and ${plan.pods.length - 40} more</p>`}
    ${plan.evictions.length > 0 && html`<h3>Would be stopped for it</h3><ul>${plan.evictions.map((each) => html`<li key=${each.name}>${each.namespace}/${each.name} on ${each.node}</li>`)}</ul>`}
    ${plan.suggestions.length > 0 && html`<h3>What would help</h3><ul class="helps">${plan.suggestions.map((each) => html`<li key=${each.description}>${each.description}</li>`)}</ul>`}
    ${plan.notes.map((each) => html`<p class="soft" key=${each}>${each}</p>`)}</section>`;
}
