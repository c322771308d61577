// What came of a manifest that was submitted: its objects, and its pods live.
import { html } from "../html.js";
import { link } from "../router.js";

const WORDS = { created: "new", configured: "changed, if it differs" };

export const Outcome = ({ objects }) => html`<ul class="plain outcome">${objects.map((each, place) => html`<li key=${place}>
  <b>${each.kind} ${each.name}</b>${each.namespace && html`<span class="soft"> in ${each.namespace}</span>`}
  ${" "}<span class=${each.problem ? "bad" : "good"}>${each.problem || WORDS[each.outcome]}</span></li>`)}</ul>`;

function Pod({ name, pod }) {
  const [namespace, short] = name.split("/");
  if (pod.waits) {
    return html`<li class="pod-row"><span class="chip chip-waiting">Waits</span> <b>${short}</b> ${pod.reason}
      ${" "}<a href=${link("waiting", ["pod", namespace, short])}>Why, and what would help</a></li>`;
  }
  return html`<li class="pod-row"><span class=${`chip ${pod.phase === "Running" ? "chip-starting" : ""}`}>${pod.phase}</span> <b>${short}</b>
    ${pod.node && html` on <b>${pod.node}</b>`}${pod.devices.length > 0 && html`<span class="soft"> with ${pod.devices.join(", ")}</span>`}</li>`;
}

export function Submitted({ done, pods, leftOff, onForget }) {
  const rows = Object.entries(pods || {});
  return html`<section class="card submitted"><div class="details-head"><h2>Submitted</h2>
      <button type="button" class="quiet" aria-label="Close what was submitted" onClick=${onForget}>✕</button></div>
    ${done.some((each) => each.problem) && html`<${Outcome} objects=${done} />`}
    <ul class="plain" aria-live="polite">${rows.map(([name, pod]) => html`<${Pod} key=${name} name=${name} pod=${pod} />`)}</ul>
    ${leftOff > 0 && html`<p class="soft">and ${leftOff} more</p>`}
    ${!rows.length && html`<p class="soft" role="status">Waiting for its pods…</p>`}</section>`;
}
