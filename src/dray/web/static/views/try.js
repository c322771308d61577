// A manifest is checked and planned while it is typed, and then submitted; what came of it is shown live.
import { call } from "../api.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { useAnswer } from "../parts/answer.js";
import { Confirm } from "../parts/confirm.js";
import { useLater } from "../parts/later.js";
import { ViewHead } from "../parts/status.js";
import { useParam } from "../router.js";
import { useView } from "../stream.js";
import { Findings, Plan } from "./try_answer.js";
import { Outcome, Submitted } from "./try_pods.js";

const MOST_BYTES = 256 * 1024;
const PAUSE = 600;
const WORKLOADS = ["Pod", "Job", "CronJob", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"];
// What was typed stays while the viewer looks at other views; it is never stored.
let draft = "";

function useExamples() {
  const [examples, setExamples] = useState([]);
  useEffect(() => { call("try", "examples").then((found) => setExamples(found.examples), () => {}); }, []);
  return examples;
}

function Editor({ text, onText, onProblem, children }) {
  const [over, setOver] = useState(false);
  const input = useRef(null);
  const take = async (files) => {
    const file = files[0];
    if (!file) return;
    if (file.size > MOST_BYTES) onProblem(`${file.name} has more than ${MOST_BYTES / 1024} KiB. Use dray apply -f instead.`);
    else onText(await file.text());
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer.files);
  };
  return html`<div class=${over ? "editor over" : "editor"} onDragOver=${(event) => { event.preventDefault(); setOver(true); }}
      onDragLeave=${() => setOver(false)} onDrop=${drop}>
    <label class="editor-head"><span>Manifest</span>
      <span class="soft">Paste or type YAML, or drop a file.</span></label>
    <textarea id="manifest" aria-label="Manifest" spellcheck="false" autocomplete="off" rows="22" value=${text}
      placeholder="apiVersion: v1\nkind: Pod\n…" onInput=${(event) => onText(event.target.value)}></textarea>
    <input ref=${input} class="hidden" type="file" tabindex="-1" aria-label="File with a manifest" accept=".yaml,.yml,.json"
      onChange=${(event) => { take(event.target.files); event.target.value = ""; }} />
    <div class="editor-foot">${children}<button type="button" onClick=${() => input.current.click()}>Open a file…</button></div>
  </div>`;
}

function Examples({ examples, onChoose }) {
  const [name] = useParam("example");
  return html`<label class="filter"><span>Example</span>
    <select value=${name} onChange=${(event) => onChoose(event.target.value)}>
      <option value="" selected=${!name}>Choose…</option>
      ${examples.map((each) => html`<option key=${each.name} value=${each.name} selected=${each.name === name}>${each.title}</option>`)}
    </select></label>`;
}

// Asks the server what it would do, and submits when the viewer agrees.
function useSubmit(text, namespace, onDone) {
  const [tried, setTried] = useState(null);
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState(false);
  // What was tried with another text says nothing about this one.
  useEffect(() => { setTried(null); setFailure(""); }, [text, namespace]);
  const dryRun = async () => {
    setBusy(true);
    setFailure("");
    try {
      setTried((await call("try", "apply", { manifest: text, namespace, dryRun: true })).objects);
    } catch (error) {
      setFailure(error.message);
    }
    setBusy(false);
  };
  const apply = async () => {
    const { objects } = await call("try", "apply", { manifest: text, namespace, dryRun: false });
    onDone(objects);
  };
  return { tried, failure, busy, dryRun, apply, close: () => setTried(null) };
}

function Submitting({ submit: { tried, failure, apply, close } }) {
  const refused = tried?.some((each) => each.problem);
  return html`<div class="submit"><p role="alert" class="failure">${failure}</p>
    ${tried && !refused && html`<${Confirm} title="Submit this?" action="Submit" onConfirm=${apply} onClose=${close}>
      <p>The server has checked it. This will be done:</p><${Outcome} objects=${tried} /></${Confirm}>`}
    ${refused && html`<section class="card refused" role="alert"><h3>The server would refuse this. Nothing was changed.</h3><${Outcome} objects=${tried} /></section>`}
  </div>`;
}

function Try() {
  const [text, setText] = useState(draft);
  const [problem, setProblem] = useState("");
  const [example, setExample] = useParam("example");
  const [namespace, setNamespace] = useParam("namespace");
  const [of, setOf] = useParam("of");
  const [done, setDone] = useState([]);
  const examples = useExamples();
  const live = useView("try", { of });
  const settled = useLater(text, PAUSE);
  const found = useAnswer("try", "check", settled.trim() ? { manifest: settled, namespace } : null);
  const write = (next) => { draft = next; setText(next); setProblem(""); };
  const choose = (name) => {
    setExample(name);
    const chosen = examples.find((each) => each.name === name);
    if (chosen) write(chosen.text);
  };
  // An address with an example shows it.
  useEffect(() => { if (example && !text) choose(example); }, [examples]);
  const finish = (objects) => {
    setDone(objects);
    const made = objects.filter((each) => each.outcome && WORKLOADS.includes(each.kind));
    setOf(made.map((each) => `${each.kind}/${each.namespace}/${each.name}`).join(",").slice(0, 1500));
  };
  const submit = useSubmit(text, namespace, finish);
  return html`<${ViewHead} title="Try" state=${live.state} problem=${live.problem}>
      <${Examples} examples=${examples} onChoose=${choose} />
      <label class="filter"><span>Namespace</span><input value=${namespace} placeholder="default"
        onInput=${(event) => setNamespace(event.target.value.trim())} /></label><//>
    <div class="try">
      <div class="try-left">
        <${Editor} text=${text} onText=${write} onProblem=${setProblem}>
          <button type="button" class="primary" disabled=${submit.busy || !text.trim()} onClick=${submit.dryRun}>Submit…</button><//>
        <p role="alert" class="failure">${problem}</p>
        <${Submitting} submit=${submit} />
      </div>
      <div class="try-right">
        ${of && html`<${Submitted} done=${done} pods=${live.data?.pods} leftOff=${live.data?.left_off}
          onForget=${() => { setDone([]); setOf(""); }} />`}
        ${!text.trim() && !of && html`<section class="card"><h2>See what would happen</h2>
          <p>Paste a manifest, drop a file, or begin with an example. It is checked and planned at once: whether it fits, where,
            with which devices, and what would help. Nothing is changed until you submit it.</p>
          <ul class="starts">${examples.map((each) => html`<li key=${each.name}><button type="button" onClick=${() => choose(each.name)}>${each.title}</button> <span class="soft">${each.about}</span></li>`)}</ul></section>`}
        ${text.trim() && html`<${Findings} found=${found} /><${Plan} found=${found} />`}
      </div>
    </div>`;
}

export const view = { name: "try", title: "Try", component: Try };
