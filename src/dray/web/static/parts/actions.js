// Buttons for what the viewer may do with a target. Each opens a dialog that tries the change with a dry run, shows what
// the server says, and asks for a confirmation.
import { call } from "../api.js";
import { html, useEffect, useId, useState } from "../html.js";
import { Confirm } from "./confirm.js";
import { useLater } from "./later.js";
import { own } from "./own.js";

function Field({ field, value, onValue }) {
  const id = useId();
  const change = (event) => onValue(event.target.value);
  return html`<label for=${id}>${field.title}</label>${field.options
    ? html`<select id=${id} value=${value} onChange=${change}>${field.options.map((each) => html`<option key=${each} value=${each} selected=${each === value}>${each}</option>`)}</select>`
    : html`<input id=${id} value=${value} maxlength="300" onInput=${change} />`}`;
}

function Trial({ trial }) {
  if (!trial) return html`<p class="soft">Asking the server what would happen…</p>`;
  if (trial.failure) return html`<p class="failure">The server refuses: ${trial.failure}</p>`;
  return html`<p><b>Dry run:</b> ${trial.answer.text}.</p>${trial.answer.notes.map((note) => html`<p key=${note} class="soft">${note}</p>`)}`;
}

function ActionDialog({ name, action, target, onDone, onClose }) {
  const [fields, setFields] = useState(Object.fromEntries(action.fields.map((field) => [field.name, field.value])));
  const [trial, setTrial] = useState(null);
  // A field may have a value for each choice in another.
  const change = (name, value) => setFields({
    ...fields, [name]: value,
    ...Object.fromEntries(action.fields.filter((each) => each.follows === name).map((each) => [each.name, own(each.values, value) ?? ""])),
  });
  const asked = useLater(JSON.stringify(fields));
  const act = (dryRun, uid = "") => call("devices", "act", { action: name, namespace: target.namespace, name: target.name, fields, dryRun, uid });
  useEffect(() => {
    let current = true;
    setTrial(null);
    act(true).then((answer) => current && setTrial({ answer }), (error) => current && setTrial({ failure: error.message }));
    return () => { current = false; };
  }, [asked]);
  const ready = Boolean(trial?.answer) && asked === JSON.stringify(fields);
  const title = action.title.replace("…", "");
  const confirm = async () => onDone((await act(false, trial.answer.uid)).text);
  return html`<${Confirm} title=${`${title}: ${target.name}`} action=${title} danger=${action.danger} ready=${ready} onConfirm=${confirm} onClose=${onClose}>
    ${action.fields.length > 0 && html`<div class="fields">${action.fields.map((field) => html`<${Field} key=${field.name} field=${field}
      value=${fields[field.name]} onValue=${(value) => change(field.name, value)} />`)}</div>`}
    <div role="status"><${Trial} trial=${trial} /></div><//>`;
}

// <${Actions} target="pod" namespace="default" name="train" />; targets are device, node, pod, claim, and kinds of queues.
// `version` is anything that changes when other actions may be possible. With `named`, buttons say what they are about.
export function Actions({ target, namespace = "", name, version = "", named = false }) {
  const [actions, setActions] = useState({});
  const [open, setOpen] = useState("");
  const [done, setDone] = useState("");
  const seen = useLater(String(version), 1000);
  useEffect(() => {
    let current = true;
    call("devices", "offers", { target, namespace, name })
      .then((answer) => current && setActions(answer.actions), () => current && setActions({}));
    return () => { current = false; };
  }, [target, namespace, name, done, seen]);
  if (!Object.keys(actions).length && !done) return null;
  return html`<div class="actions" role="group" aria-label=${`Actions on ${name}`}>
    ${Object.entries(actions).map(([each, action]) => html`<button key=${each} type="button" class=${action.danger ? "dangerous" : ""}
      onClick=${() => setOpen(each)}>${named ? action.title.replace("…", ` ${name}…`) : action.title}</button>`)}
    ${done && html`<p role="status">${done}.</p>`}
    ${actions[open] && html`<${ActionDialog} name=${open} action=${actions[open]} target=${{ namespace, name }}
      onDone=${setDone} onClose=${() => setOpen("")} />`}</div>`;
}
